// Dims: integers, or canonical polynomials over symbols, floordiv, mod, min and max. Interned, so equal dims are
// equal pointers and copying is free.
//
//   Dim s = Dim::symbol("s0");
//   floordiv(s * 2 - 4, 2) + 1        is  s0 - 1
//   Dim::parse("floordiv(s0 - 3, 2)") throws Error on bad text
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pycandle {

namespace detail {
struct DimNode;
}

enum class Tri { no, yes, unknown };

// Symbol values for one run.
using Bindings = std::map<std::string, int64_t, std::less<>>;

// What is known of a symbol: min ≤ value ≤ max.
struct SymbolRange {
  int64_t min = 1;
  std::optional<int64_t> max;
};
using SymbolRanges = std::map<std::string, SymbolRange, std::less<>>;

class Dim {
 public:
  Dim() : Dim(int64_t{0}) {}
  Dim(int64_t value);  // NOLINT(google-explicit-constructor): a number is a dim
  Dim(int value) : Dim(int64_t{value}) {}  // NOLINT(google-explicit-constructor)
  static Dim symbol(std::string_view name);
  static Dim parse(std::string_view text);  // ErrorCode::bad_input on anything outside the grammar, over 4,096 characters or over
                                            // 64 levels deep

  bool is_number() const;
  int64_t number() const;  // throws internal when symbolic
  std::optional<int64_t> maybe_number() const;
  int64_t evaluate(const Bindings&) const;  // throws bad_input on an unbound symbol or overflow
  std::string text() const;  // canonical; parse(text()) is the same dim
  void collect_symbols(std::vector<std::string>& into) const;  // appends each once, in order of appearance
  // Replaces symbols by dims.
  Dim substitute(const std::map<std::string, Dim, std::less<>>&) const;

  friend Dim operator+(Dim, Dim);
  friend Dim operator-(Dim, Dim);
  friend Dim operator*(Dim, Dim);
  friend Dim operator-(Dim);
  friend Dim floordiv(Dim, Dim);  // rounds to minus infinity, as Python
  friend Dim mod(Dim, Dim);
  friend Dim min(Dim, Dim);
  friend Dim max(Dim, Dim);
  // The same canonical dim. For "are these equal for every binding" use equal() below.
  friend bool operator==(Dim a, Dim b) { return a.node_ == b.node_; }

 private:
  explicit Dim(const detail::DimNode* node) : node_(node) {}
  const detail::DimNode* node_;
  friend struct detail::DimNode;
};

Dim floordiv(Dim, Dim);
Dim mod(Dim, Dim);
Dim min(Dim, Dim);
Dim max(Dim, Dim);
Dim ceildiv(Dim a, Dim b);

// Equal for every value of the symbols within their ranges? Symbols without a range are ≥ 0.
Tri equal(Dim a, Dim b, const SymbolRanges& = {});
Tri at_most(Dim a, Dim b, const SymbolRanges& = {});  // a ≤ b

using Shape = std::vector<Dim>;
std::string to_string(const Shape&);  // "[s0, 3, 224]"
Dim product(const Shape&);
std::vector<int64_t> evaluate(const Shape&, const Bindings&);
bool all_numbers(const Shape&);

}  // namespace pycandle
