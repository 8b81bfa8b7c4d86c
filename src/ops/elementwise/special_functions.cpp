#include "ops/elementwise/special_functions.h"

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

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
}  // namespace

// The power series has no cancellation; far out the asymptotic one needs fewer terms.
double bessel_i(int order, double x, bool scaled) {
  const double a = std::abs(x), sign = order == 1 && x < 0 ? -1 : 1;
  if (std::isnan(x)) return x;
  if (a < 30) {
    const double quarter = a * a / 4;
    double term = order == 0 ? 1 : a / 2, sum = term;
    for (int k = 1; k < 200 && term > sum * 1e-18; ++k) sum += term *= quarter / (static_cast<double>(k) * (k + order));
    return sign * sum * (scaled ? std::exp(-a) : 1);
  }
  const double mu = order == 0 ? 0 : 4;
  double term = 1, sum = 1;
  for (int k = 1; k < 40 && std::abs(term) > 1e-18; ++k) {
    const double odd = 2 * k - 1;
    sum += term *= -(mu - odd * odd) / (k * 8 * a);
  }
  const double tail = sum / std::sqrt(2 * std::numbers::pi * a);
  if (scaled) return sign * (std::isinf(a) ? 0 : tail);
  return sign * (std::isinf(a) ? a : std::exp(a / 2) * tail * std::exp(a / 2));  // in halves: exp(a) may overflow first
}

double erfcx(double x) {
  const long double wide = x;
  if (x < 25) return x < -27 ? kInfinity : static_cast<double>(std::exp(wide * wide) * std::erfc(wide));
  double term = 1, sum = 1;
  for (int k = 1; k < 12; ++k) sum += term *= -(2 * k - 1) / (2 * x * x);
  return sum * std::numbers::inv_sqrtpi / x;
}

double log_ndtr(double x) {
  const double t = x / std::numbers::sqrt2;
  return x < -1 ? std::log(erfcx(-t) / 2) - t * t : std::log1p(-std::erfc(t) / 2);
}

// A rational start (three digits), then Halley's steps on the tail that p is in, which keeps p's own digits.
double ndtri(double p) {
  if (!(p >= 0 && p <= 1)) return kNaN;
  if (p == 0 || p == 1) return p == 0 ? -kInfinity : kInfinity;
  if (p > 0.5) return p == 1 ? kInfinity : -ndtri(1 - p);
  const double t = std::sqrt(-2 * std::log(p));
  double x = -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
  for (int step = 0; step < 4; ++step) {
    const double error = std::erfc(-x / std::numbers::sqrt2) / 2 - p;
    const double newton = error * std::sqrt(2 * std::numbers::pi) * std::exp(x * x / 2);
    x -= newton / (1 + x * newton / 2);
  }
  return x;
}

double entr(double x) { return x > 0 ? -x * std::log(x) : x == 0 ? 0 : std::isnan(x) ? x : -kInfinity; }

// Some terms one by one, then Euler and Maclaurin's formula for the rest.
double zeta(double x, double q) {
  if (x == 1) return kInfinity;
  if (!(x > 1) || std::isnan(q)) return kNaN;
  if (q <= 0) {
    if (q == std::floor(q)) return kInfinity;
    if (x != std::floor(x)) return kNaN;
  }
  double sum = 0, a = q;
  for (int k = 0; k < 12 || a <= 9; ++k, ++a) {
    const double term = std::pow(a, -x);
    sum += term;
    if (k > 12 && std::abs(term) < 1e-17 * std::abs(sum)) return sum;
  }
  sum += std::pow(a, 1 - x) / (x - 1) + std::pow(a, -x) / 2;
  // B_2k / (2k)! times the rising product x (x + 1) … over a^(x + 2k - 1)
  constexpr double kSeries[] = {1.0 / 12,          -1.0 / 720,
                                1.0 / 30240,       -1.0 / 1209600,
                                1.0 / 47900160,    -691.0 / 1307674368000,
                                1.0 / 74724249600, -3617.0 / 10670622842880000};
  double factor = x * std::pow(a, -x - 1);
  for (int k = 0; k < 8; ++k) {
    sum += kSeries[k] * factor;
    factor *= (x + 2 * k + 1) * (x + 2 * k + 2) / (a * a);
  }
  return sum;
}

// With torch's few terms, since it is torch's value that is wanted: it is off by 1e-9.
static double trigamma(double x) {
  if (x < 0.5) {
    const double s = std::sin(std::numbers::pi * x);
    return std::numbers::pi * std::numbers::pi / (s * s) - trigamma(1 - x);
  }
  double sum = 0;
  for (int k = 0; k < 6; ++k, ++x) sum += 1 / (x * x);
  const double z = 1 / (x * x);
  return sum + (1 + 1 / (2 * x) + z * (1.0 / 6 - z * (1.0 / 30 - z / 42))) / x;
}

double polygamma(int64_t n, double x) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  const double factorial = std::exp(lgamma(static_cast<double>(n) + 1));
  return (n % 2 == 0 ? -1 : 1) * factorial * zeta(static_cast<double>(n) + 1, x);
}

namespace {

// x^a e^-x / gamma(a + 1); in long double, since the exponent is a difference of large numbers
double gamma_front(double a, double x) {
  int sign = 0;
  const long double exponent = a * std::log(static_cast<long double>(x)) - x -
                               ::lgammal_r(static_cast<long double>(a) + 1, &sign);
  return static_cast<double>(std::exp(exponent));
}

double lower_by_series(double a, double x) {
  double term = 1, sum = 1;
  for (int k = 1; k < 2000 && term > sum * 1e-17; ++k) sum += term *= x / (a + k);
  return sum * gamma_front(a, x);
}

// Lentz's way through the continued fraction.
double upper_by_fraction(double a, double x) {
  constexpr double kTiny = 1e-300;
  double b = x + 1 - a, c = 1 / kTiny, d = 1 / b, h = d;
  for (int k = 1; k < 2000; ++k) {
    const double numerator = -k * (k - a);
    b += 2;
    d = 1 / (std::abs(numerator * d + b) < kTiny ? kTiny : numerator * d + b);
    c = std::abs(b + numerator / c) < kTiny ? kTiny : b + numerator / c;
    h *= d * c;
    if (std::abs(d * c - 1) < 1e-16) break;
  }
  return h * gamma_front(a, x) * a;
}

}  // namespace

double igamma(double a, double x) {
  if (!(x >= 0 && a >= 0) || (a == 0 && x == 0) || (std::isinf(a) && std::isinf(x))) return kNaN;
  if (a == 0 || std::isinf(x)) return 1;
  if (x == 0 || std::isinf(a)) return 0;
  return x < a + 1 ? lower_by_series(a, x) : 1 - upper_by_fraction(a, x);
}

double igammac(double a, double x) {
  if (!(x >= 0 && a >= 0) || (a == 0 && x == 0) || (std::isinf(a) && std::isinf(x))) return kNaN;
  if (a == 0 || std::isinf(x)) return 0;
  if (x == 0 || std::isinf(a)) return 1;
  return x < a + 1 ? 1 - lower_by_series(a, x) : upper_by_fraction(a, x);
}

}  // namespace pycandle
