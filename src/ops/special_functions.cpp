#include "ops/special_functions.h"

#include <cmath>
#include <limits>
#include <numbers>

namespace pycandle {

double lgamma(double x) {
  int sign = 0;
  return ::lgamma_r(x, &sign);
}

// The recurrence digamma(x) = digamma(x + 1) - 1/x up to x ≥ 10, then the asymptotic series; negative x by reflection.
double digamma(double x) {
  if (x == 0) return std::copysign(std::numeric_limits<double>::infinity(), -x);
  if (x < 0) {
    if (x == std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
    const double fraction = x - std::floor(x);  // tan has period pi: reduced, so that large |x| keeps its digits
    return digamma(1 - x) - std::numbers::pi / std::tan(std::numbers::pi * fraction);
  }
  double shift = 0;
  for (; x < 10; ++x) shift -= 1 / x;
  if (std::isinf(x)) return x;
  // Bernoulli numbers B_2k / 2k.
  constexpr double kSeries[] = {1.0 / 12, -1.0 / 120, 1.0 / 252, -1.0 / 240, 1.0 / 132, -691.0 / 32760, 1.0 / 12};
  const double z = 1 / (x * x);
  double tail = 0;
  for (int k = 6; k >= 0; --k) tail = z * (kSeries[k] + tail);
  return shift + std::log(x) - 0.5 / x - tail;
}

// Starts from the leading terms of the inverse and refines with Halley's steps, which triple the correct digits; near
// the ends erfc keeps the digits that 1 - |x| has.
double erfinv(double x) {
  if (!(std::abs(x) < 1)) {
    return std::abs(x) == 1 ? std::copysign(std::numeric_limits<double>::infinity(), x)
                            : std::numeric_limits<double>::quiet_NaN();
  }
  if (x == 0) return x;
  const double a = std::abs(x), rest = 1 - a;
  const double log_term = std::log(rest * (1 + a));
  constexpr double kA = 0.147;
  const double t = 2 / (std::numbers::pi * kA) + log_term / 2;
  double y = std::sqrt(std::sqrt(t * t - log_term / kA) - t);
  for (int step = 0; step < 3; ++step) {
    const double error = a < 0.5 ? std::erf(y) - a : rest - std::erfc(y);
    const double newton = error / (2 * std::numbers::inv_sqrtpi * std::exp(-y * y));
    y -= newton / (1 + y * newton);
  }
  return std::copysign(y, x);
}

}  // namespace pycandle
