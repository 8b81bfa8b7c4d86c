// A size of a tensor: a number, or an expression over the dynamic sizes of a signature.
//
//   Dim seq = x.dim(1);
//   x.reshape({x.dim(0), seq / 2, 2 * 64});
//   if (seq > 16) …               // throws unless the answer is the same for every size that the signature allows
//   int64_t n = seq.specialise();  // fixes it to the signature's example, checked when the program runs
//   Dim tall = floor(1.7 * x.dim(2));  // in double precision, as Python's int(1.7 * n)
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "pycandle/api.h"

namespace pycandle::detail {
struct DimNode;
struct RealNode;
}  // namespace pycandle::detail

namespace pycandle::front {
class PYCANDLE_API Dim {
 public:
  Dim() : Dim(int64_t{0}) {}
  Dim(int64_t value);                              // NOLINT(google-explicit-constructor): a number is a dim
  Dim(int value) : Dim(int64_t{value}) {}          // NOLINT(google-explicit-constructor)
  Dim(unsigned value) : Dim(int64_t{value}) {}     // NOLINT(google-explicit-constructor)
  Dim(unsigned long value) : Dim(static_cast<int64_t>(value)) {}  // NOLINT(google-explicit-constructor)

  bool is_number() const;
  int64_t number() const;      // throws when it is symbolic
  int64_t specialise() const;  // the size in the signature's example; other sizes are refused when the program runs
  std::string text() const;    // "batch*sequence + 1"
  explicit operator int64_t() const { return number(); }

  friend PYCANDLE_API Dim operator+(Dim, Dim);
  friend PYCANDLE_API Dim operator-(Dim, Dim);
  friend PYCANDLE_API Dim operator*(Dim, Dim);
  friend PYCANDLE_API Dim operator/(Dim, Dim);  // rounds to minus infinity, as Python's //
  friend PYCANDLE_API Dim operator%(Dim, Dim);  // has the sign of the divisor, as Python's
  friend PYCANDLE_API Dim operator-(Dim);
  friend PYCANDLE_API bool operator==(Dim, Dim);
  friend PYCANDLE_API bool operator<(Dim, Dim);
  friend bool operator>(Dim a, Dim b) { return b < a; }
  friend PYCANDLE_API bool operator<=(Dim, Dim);
  friend bool operator>=(Dim a, Dim b) { return b <= a; }
  Dim& operator+=(Dim other) { return *this = *this + other; }
  Dim& operator-=(Dim other) { return *this = *this - other; }
  Dim& operator*=(Dim other) { return *this = *this * other; }
  Dim& operator/=(Dim other) { return *this = *this / other; }

 private:
  friend struct DimAccess;
  explicit Dim(const detail::DimNode* node) : node_(node) {}
  const detail::DimNode* node_;
};

// A size in double precision, each operation rounded as Python's and torch's are. Rounding makes it a Dim again.
class PYCANDLE_API DimReal {
 public:
  DimReal(Dim value);  // NOLINT(google-explicit-constructor): a size is a number
  template <class T>
    requires std::is_arithmetic_v<T>
  DimReal(T value) : DimReal(from_number(static_cast<double>(value))) {}  // NOLINT(google-explicit-constructor)

  friend PYCANDLE_API DimReal operator+(const DimReal&, const DimReal&);
  friend PYCANDLE_API DimReal operator-(const DimReal&, const DimReal&);
  friend PYCANDLE_API DimReal operator*(const DimReal&, const DimReal&);
  friend PYCANDLE_API DimReal operator/(const DimReal&, const DimReal&);
  friend PYCANDLE_API DimReal operator-(const DimReal&);

 private:
  friend struct DimAccess;
  explicit DimReal(std::shared_ptr<const detail::RealNode> node) : node_(std::move(node)) {}
  static DimReal from_number(double);
  std::shared_ptr<const detail::RealNode> node_;
};
// A size and a fraction; a size and a whole number stay a Dim.
template <std::floating_point T> DimReal operator+(Dim a, T b) { return DimReal(a) + DimReal(b); }
template <std::floating_point T> DimReal operator+(T a, Dim b) { return DimReal(a) + DimReal(b); }
template <std::floating_point T> DimReal operator-(Dim a, T b) { return DimReal(a) - DimReal(b); }
template <std::floating_point T> DimReal operator-(T a, Dim b) { return DimReal(a) - DimReal(b); }
template <std::floating_point T> DimReal operator*(Dim a, T b) { return DimReal(a) * DimReal(b); }
template <std::floating_point T> DimReal operator*(T a, Dim b) { return DimReal(a) * DimReal(b); }
template <std::floating_point T> DimReal operator/(Dim a, T b) { return DimReal(a) / DimReal(b); }
template <std::floating_point T> DimReal operator/(T a, Dim b) { return DimReal(a) / DimReal(b); }
PYCANDLE_API Dim floor(const DimReal&);
PYCANDLE_API Dim ceil(const DimReal&);
PYCANDLE_API Dim trunc(const DimReal&);  // to zero, as Python's int()
PYCANDLE_API Dim round(const DimReal&);  // halves to even, as Python's

PYCANDLE_API Dim floordiv(Dim, Dim);
PYCANDLE_API Dim mod(Dim, Dim);
PYCANDLE_API Dim ceildiv(Dim, Dim);
PYCANDLE_API Dim min(Dim, Dim);
PYCANDLE_API Dim max(Dim, Dim);
// A size that the data decides (of nonzero, unique, …): a new one for each call.
PYCANDLE_API Dim data_dim();

using Dims = std::vector<Dim>;
using Ints = std::vector<int64_t>;
using Numbers = std::vector<double>;

}  // namespace pycandle::front
