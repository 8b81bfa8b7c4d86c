#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "verify/judge.h"

namespace pycandle {

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

  Metrics m;
  double squares = 0, dot = 0, got_norm = 0, expected_norm = 0;
  for (size_t i = 0; i < g.size(); ++i) {
    const bool equal = are_integers ? got_ints[i] == expected_ints[i] : same_number(g[i], e[i]);
    if (!equal) {
      ++m.differing;
      if (m.first_difference < 0) m.first_difference = static_cast<int64_t>(is_complex(got.dtype()) ? i / 2 : i);
    }
    if (!std::isfinite(g[i]) || !std::isfinite(e[i])) {
      if (!equal) ++m.nan_mismatches;
      continue;
    }
    const double difference = std::abs(g[i] - e[i]);
    squares += difference * difference;
    m.max_abs = std::max(m.max_abs, difference);
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
  }
  return m;
}

}  // namespace pycandle
