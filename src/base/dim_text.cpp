// Dim::parse: sums, products, integers, symbols, parentheses and the functions (docs/manifest.md).
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/dim.h"
#include "base/dim_real.h"
#include "base/error.h"

namespace pycandle {

namespace {

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  Dim whole() {
    constexpr size_t kMaxText = 4096;
    if (text_.size() > kMaxText)
      throw Error(ErrorCode::bad_input, "a dim text is too long")
          .expected(fmt::format("at most {} characters", kMaxText))
          .found(fmt::format("{}", text_.size()));
    const Dim value = sum();
    if (peek() != '\0') fail("the end of the dim");
    return value;
  }

 private:
  Dim sum() {
    Dim value = product();
    for (;;) {
      if (take('+'))
        value = value + product();
      else if (take('-'))
        value = value + product(true);
      else
        return value;
    }
  }

  Dim product(bool negative = false) {
    Dim value = factor(negative);
    while (take('*')) value = value * factor();
    return value;
  }

  Dim factor(bool negative = false) {
    while (peek() == '-' || peek() == '+') negative ^= text_[at_++] == '-';
    skip_space();
    if (at_ < text_.size() && is_digit(text_[at_])) return number(negative);
    const Dim value = primary();
    return negative ? -value : value;
  }

  Dim primary() {
    if (peek() == '(') {
      const Dim value = [&] {
        Nested level(*this);
        expect('(');
        return sum();
      }();
      expect(')');
      return value;
    }
    const std::string_view name = word();
    if (name == "floordiv") return call([](Dim a, Dim b) { return floordiv(a, b); }, 2);
    if (name == "mod") return call([](Dim a, Dim b) { return mod(a, b); }, 2);
    if (name == "min") return call([](Dim a, Dim b) { return min(a, b); }, 0);
    if (name == "max") return call([](Dim a, Dim b) { return max(a, b); }, 0);
    if (const auto rounding = rounding_named(name)) {
      const Nested level(*this);
      expect('(');
      const DimReal value = real_sum();
      expect(')');
      return rounded(*rounding, value);
    }
    return Dim::symbol(name);
  }

  // Inside floor, ceil, trunc and round: double arithmetic, from left to right.
  DimReal real_sum() {
    DimReal value = real_product();
    for (;;) {
      if (take('+'))
        value = value + real_product();
      else if (take('-'))
        value = value - real_product();
      else
        return value;
    }
  }

  DimReal real_product() {
    DimReal value = real_factor();
    for (;;) {
      if (take('*'))
        value = value * real_factor();
      else if (take('/'))
        value = value / real_factor();
      else
        return value;
    }
  }

  DimReal real_factor() {
    bool negative = false;
    while (peek() == '-' || peek() == '+') negative ^= text_[at_++] == '-';
    skip_space();
    if (at_ < text_.size() && is_digit(text_[at_])) return real_number(negative);
    if (peek() != '(') return negative ? -DimReal(primary()) : DimReal(primary());
    const Nested level(*this);
    expect('(');
    const DimReal value = real_sum();
    expect(')');
    return negative ? -value : value;
  }

  DimReal real_number(bool negative) {
    const size_t begin = at_;
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + begin, text_.data() + text_.size(), value);
    const std::string_view token = text_.substr(begin, static_cast<size_t>(end - text_.data()) - begin);
    if (error == std::errc() && token.find_first_of(".e") == std::string_view::npos) return number(negative);
    if (error != std::errc() || !std::isfinite(value)) fail("a number that fits into a double");
    at_ += token.size();
    return negative ? -value : value;
  }

  // count: how many arguments there must be; 0 for two or more.
  template <class Function> Dim call(Function function, int count) {
    const Nested level(*this);
    expect('(');
    Dim value = sum();
    int found = 1;
    while (peek() == ',' && (count == 0 || found < count)) {
      ++at_;
      value = function(value, sum());
      ++found;
    }
    if (found < 2) fail("','");
    expect(')');
    return value;
  }

  // The sign belongs to the number: the lowest int64 has no positive twin.
  Dim number(bool negative) {
    const size_t begin = at_;
    while (at_ < text_.size() && is_digit(text_[at_])) ++at_;
    const std::string digits = (negative ? "-" : "") + std::string(text_.substr(begin, at_ - begin));
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error != std::errc() || end != digits.data() + digits.size()) {
      at_ = begin;
      fail("an integer that fits into 64 bits");
    }
    return value;
  }

  std::string_view word() {
    skip_space();
    const size_t begin = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    if (begin == at_) fail("a number, a symbol, '(' or a function");
    return text_.substr(begin, at_ - begin);
  }

  struct Nested {
    explicit Nested(Parser& p) : parser(p) {
      if (++parser.depth_ > 64) parser.fail("at most 64 levels of parentheses");
    }
    ~Nested() { --parser.depth_; }
    Parser& parser;
  };

  static bool is_digit(char c) { return c >= '0' && c <= '9'; }
  static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r')) ++at_;
  }
  // The next character, '\0' at the end (a NUL inside the text is no character of the grammar either).
  char peek() {
    skip_space();
    return at_ < text_.size() ? (text_[at_] == '\0' ? '?' : text_[at_]) : '\0';
  }
  bool take(char c) {
    if (peek() != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(fmt::format("'{}'", c));
  }

  [[noreturn]] void fail(const std::string& expected) {
    skip_space();
    std::string found = at_ < text_.size() ? fmt::format("'{}' at character {}", text_.substr(at_, 16), at_ + 1)
                                           : "the end of the text";
    throw Error(ErrorCode::bad_input, fmt::format("'{}' is not a dim", text_.substr(0, 80)))
        .expected(expected)
        .found(std::move(found));
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Dim Dim::parse(std::string_view text) { return Parser(text).whole(); }

}  // namespace pycandle
