#include "verify/judging/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace pycandle {
namespace {

// Bits of a float as an integer that counts up with it: neighbours differ by one, and both zeros are 0.
template <class Bits, class Float> int64_t ordinal(Float v) {
  Bits bits;
  static_assert(sizeof(Bits) == sizeof(Float));
  std::memcpy(&bits, &v, sizeof(bits));
  constexpr Bits kSign = Bits{1} << (8 * sizeof(Bits) - 1);
  const auto magnitude = static_cast<int64_t>(bits & static_cast<Bits>(~kSign));
  return (bits & kSign) != 0 ? -magnitude : magnitude;
}

int64_t ordinal_of(double v, DType dtype) {
  switch (real_of(dtype)) {
    case DType::f64: return ordinal<uint64_t>(v);
    case DType::f16: return ordinal<uint16_t>(to_f16(v));
    case DType::bf16: return ordinal<uint16_t>(to_bf16(v));
    default: return ordinal<uint32_t>(static_cast<float>(v));
  }
}

}  // namespace

int64_t ulp_distance(double a, double b, DType dtype) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b) ? 0 : -1;
  const int64_t x = ordinal_of(a, dtype), y = ordinal_of(b, dtype);
  const uint64_t apart = x > y ? static_cast<uint64_t>(x) - static_cast<uint64_t>(y)
                               : static_cast<uint64_t>(y) - static_cast<uint64_t>(x);
  return static_cast<int64_t>(std::min(apart, static_cast<uint64_t>(std::numeric_limits<int64_t>::max())));
}

Sizes coordinates_of(int64_t index, const Sizes& shape) {
  if (index < 0) return {};
  Sizes at(shape.size());
  for (size_t axis = shape.size(); axis-- > 0;) {
    at[axis] = index % shape[axis];
    index /= shape[axis];
  }
  return at;
}

std::vector<double> as_reals(const Array& a) {
  if (!is_complex(a.dtype())) return load_double(a);
  std::vector<double> parts;
  parts.reserve(static_cast<size_t>(a.size()) * 2);
  for (const std::complex<double>& z : load_complex(a)) {
    parts.push_back(z.real());
    parts.push_back(z.imag());
  }
  return parts;
}

double root_mean_square(const std::vector<double>& values) {
  double sum = 0;
  size_t count = 0;
  for (double v : values) {
    if (!std::isfinite(v)) continue;
    sum += v * v;
    ++count;
  }
  return count == 0 ? 0 : std::sqrt(sum / static_cast<double>(count));
}

bool same_number(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Metrics compare(const Array& got, const Array& expected) {
  if (got.dtype() != expected.dtype() || got.shape() != expected.shape()) {
    throw Error(ErrorCode::bad_input, "arrays of different types cannot be compared")
        .expected(fmt::format("{}{}", name_of(expected.dtype()), to_string(expected.shape())))
        .found(fmt::format("{}{}", name_of(got.dtype()), to_string(got.shape())));
  }
  const std::vector<double> g = as_reals(got), e = as_reals(expected);
  const double least_scale = 1e-3 * root_mean_square(e);
  // Doubles do not hold every int64, so integers are compared as themselves.
  const bool are_integers = !is_inexact(got.dtype());
  const std::vector<int64_t> got_ints = are_integers ? load_int(got) : std::vector<int64_t>{};
  const std::vector<int64_t> expected_ints = are_integers ? load_int(expected) : std::vector<int64_t>{};

  const auto place = [&](size_t i) { return static_cast<int64_t>(is_complex(got.dtype()) ? i / 2 : i); };

  Metrics m;
  double squares = 0, dot = 0, got_norm = 0, expected_norm = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    const bool equal = are_integers ? got_ints[i] == expected_ints[i] : same_number(g[i], e[i]);
    if (!equal) {
      ++m.differing;
      if (m.first_difference < 0) m.first_difference = place(i);
    }
    if (!are_integers) {
      const int64_t apart = ulp_distance(g[i], e[i], got.dtype());
      const size_t bucket = apart < 0 ? kUlpBuckets - 1 : static_cast<size_t>(std::bit_width(static_cast<uint64_t>(apart)));
      ++m.ulps[std::min(bucket, kUlpBuckets - 1)];
    }
    if (!std::isfinite(g[i]) || !std::isfinite(e[i])) {
      if (equal) continue;
      if (m.nan_mismatches++ == 0) m.first_nan_mismatch = place(i);
      continue;
    }
    const double difference = std::abs(g[i] - e[i]);
    squares += difference * difference;
    if (difference > m.max_abs) {
      m.max_abs = difference;
      m.largest_difference = place(i);
    }
    if (difference > 0) m.max_rel = std::max(m.max_rel, difference / std::max(std::abs(e[i]), least_scale));
    dot += g[i] * e[i];
    got_norm += g[i] * g[i];
    expected_norm += e[i] * e[i];
  }
  m.mse = g.empty() ? 0 : squares / static_cast<double>(g.size());
  m.rms = std::sqrt(m.mse);
  if (got_norm > 0 && expected_norm > 0) {
    m.cosine = std::min(1.0, dot / (std::sqrt(got_norm) * std::sqrt(expected_norm)));
  } else {
    m.cosine = got_norm == expected_norm ? 1 : 0;
  }
  if (m.nan_mismatches > 0) {  // a number that is missing is no small error
    m.max_abs = m.max_rel = m.rms = m.mse = std::numeric_limits<double>::infinity();
    m.cosine = 0;
    m.largest_difference = m.first_nan_mismatch;
  }
  return m;
}

Metrics compare_with_sizes(const Array& got, const Array& expected) {
  if (got.dtype() != expected.dtype() || got.shape() == expected.shape()) return compare(got, expected);
  Metrics m;
  m.max_abs = m.max_rel = m.rms = m.mse = std::numeric_limits<double>::infinity();
  m.cosine = 0;
  m.differing = std::max<int64_t>(expected.size(), 1);
  return m;
}

}  // namespace pycandle
