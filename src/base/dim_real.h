// Sizes in double precision on their way to a size: Python's int(1.7 * n), torch's scale_factor.
//
//   Dim s = Dim::symbol("s0");
//   rounded(DimRounding::floor, 1.7 * DimReal(s))     is  floor(1.7*s0), and 17 for s0 = 10 (1.7 is below 17/10)
//
// Every operation is one IEEE operation on doubles in the order it was written, so nothing is reassociated. Operations on
// whole sizes are exact and stay dims. Values above 2^53 are refused when evaluated: a double no longer holds them.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "base/dim.h"

namespace pycandle {

namespace detail {
struct RealNode;
}

enum class DimRounding : uint8_t { floor, ceil, trunc, round };  // round: halves to even, as Python

class DimReal {
 public:
  DimReal(Dim value);     // NOLINT(google-explicit-constructor): a dim is a number
  DimReal(double value);  // NOLINT(google-explicit-constructor)

  friend DimReal operator+(const DimReal&, const DimReal&);
  friend DimReal operator-(const DimReal&, const DimReal&);
  friend DimReal operator*(const DimReal&, const DimReal&);
  friend DimReal operator/(const DimReal&, const DimReal&);
  friend DimReal operator-(const DimReal&);
  friend Dim rounded(DimRounding, const DimReal&);

 private:
  explicit DimReal(std::shared_ptr<const detail::RealNode> node) : node_(std::move(node)) {}
  std::shared_ptr<const detail::RealNode> node_;
  friend struct detail::RealNode;
};

Dim rounded(DimRounding, const DimReal&);
bool is_dim_function(std::string_view word);                    // floordiv, floor, …: no name of a symbol
std::optional<DimRounding> rounding_named(std::string_view word);  // floor, ceil, trunc, round

}  // namespace pycandle
