// A size of a tensor: a number, or an expression over the dynamic sizes of a signature.
//
//   Dim seq = x.dim(1);
//   x.reshape({x.dim(0), seq / 2, 2 * 64});
//   if (seq > 16) …               // throws unless the answer is the same for every size that the signature allows
//   int64_t n = seq.specialise();  // fixes it to the signature's example, checked when the program runs
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "pycandle/api.h"

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
  struct Node {
    const void* pointer;
  };
  explicit Dim(Node node) : node_(node.pointer) {}
  const void* node_;
};

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
