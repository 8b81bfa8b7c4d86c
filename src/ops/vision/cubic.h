// The cubic convolution kernel of torch's bicubic modes, on the IR's values and on numbers alike.
#pragma once

#include <array>

#include "ir/builder.h"

namespace pycandle {

constexpr double kCubicSharpness = -0.75, kAntialiasedSharpness = -0.5;  // torch's

// Arithmetic on numbers, spelled as the builder spells it.
struct PlainNumbers {
  double add(double a, double b) const { return a + b; }
  double sub(double a, double b) const { return a - b; }
  double mul(double a, double b) const { return a * b; }
};
inline constexpr PlainNumbers kPlainNumbers;

// Within 1 of the centre, and between 1 and 2. M is Builder or const PlainNumbers.
template <class M, class T> T cubic_near(M& m, T t, double k) {
  return m.add(m.mul(m.mul(m.sub(m.mul(t, k + 2), k + 3), t), t), 1.0);
}
template <class M, class T> T cubic_far(M& m, T t, double k) {
  return m.sub(m.mul(m.add(m.mul(m.sub(m.mul(t, k), 5 * k), t), 8 * k), t), 4 * k);
}

// The weights of the four pixels around a position that lies `part` behind the second of them.
template <class M, class T> std::array<T, 4> cubic_weights(M& m, T part) {
  constexpr double k = kCubicSharpness;
  const T rest = m.sub(1.0, part);
  return {cubic_far(m, m.add(part, 1.0), k), cubic_near(m, part, k), cubic_near(m, rest, k), cubic_far(m, m.add(rest, 1.0), k)};
}

}  // namespace pycandle
