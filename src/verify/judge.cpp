#include "verify/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pycandle {
namespace {

// Masks are filled with the lowest number of a dtype; one of those would hide every other error of its tensor.
bool is_sentinel(double v, DType dtype) { return std::abs(v) >= highest_of(real_of(dtype)) / 4; }

struct Sums {
  double squares = 0, max = 0;
  void add(double v) {
    squares += v * v;
    max = std::max(max, v);
  }
};

std::string number_text(double v) { return fmt::format("{:.6g}", v); }

// |candidate − f64| against max(|witness − f64| for every witness, u · RMS). `must_agree` decides with the candidate
// where NaN and infinities stand.
Judgement judge(const Array& candidate, const char* name, const Array& must_agree, const char* agree_name, const Array& f64,
                const std::vector<const Array*>& witnesses) {
  const DType dtype = candidate.dtype();
  const double u = unit_roundoff(dtype);
  const std::vector<double> values = as_reals(candidate), other = as_reals(must_agree), exact = as_reals(f64);
  std::vector<std::vector<double>> seen;
  seen.reserve(witnesses.size());
  for (const Array* w : witnesses) seen.push_back(as_reals(*w));

  std::vector<double> usual;  // what the scale is made of
  for (double v : exact) {
    if (std::isfinite(v) && !is_sentinel(v, dtype)) usual.push_back(v);
  }
  Judgement result;
  result.scale = root_mean_square(usual);
  const double least_floor = u * result.scale;
  Sums error, floor;
  size_t count = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]) || !std::isfinite(other[i])) {
      if (same_number(values[i], other[i])) continue;
      result.passed = false;
      result.why = fmt::format("{} has {} where {} has {}, at element {}", name, number_text(values[i]), agree_name,
                               number_text(other[i]), i);
      return result;
    }
    const double truth = std::isfinite(exact[i]) ? exact[i] : other[i];
    const double difference = std::abs(values[i] - truth);
    if (is_sentinel(truth, dtype)) {
      if (difference <= kMaxFactor * u * std::abs(truth)) continue;
      result.passed = false;
      result.why = fmt::format("{} has {} where the program gives {}, at element {}", name, number_text(values[i]),
                               number_text(truth), i);
      return result;
    }
    double allowed = least_floor;
    for (const std::vector<double>& w : seen) {
      if (std::isfinite(w[i])) allowed = std::max(allowed, std::abs(w[i] - truth));
    }
    error.add(difference);
    floor.add(allowed);
    ++count;
  }
  if (count == 0) return result;
  const double n = static_cast<double>(count);
  result.error_rms = std::sqrt(error.squares / n);
  result.error_max = error.max;
  result.floor_rms = std::sqrt(floor.squares / n);
  result.floor_max = floor.max;
  const bool rms_fits = result.error_rms <= kRmsFactor * result.floor_rms,
             max_fits = result.error_max <= kMaxFactor * result.floor_max;
  result.passed = rms_fits && max_fits;
  if (!result.passed) {
    const bool by_rms = !rms_fits;
    const double err = by_rms ? result.error_rms : result.error_max, allowed = by_rms ? result.floor_rms : result.floor_max;
    const std::string times = allowed > 0 ? fmt::format("{:.3g} times the rounding floor of {:.2g}", err / allowed, allowed)
                                          : std::string("where rounding allows nothing");
    result.why = fmt::format("{} is {:.2g} ({}) from the program's exact value, {}", name, err, by_rms ? "rms" : "max", times);
  }
  return result;
}

std::vector<const Array*> pointers(const std::vector<Array>& arrays, const Array& first) {
  std::vector<const Array*> all{&first};
  for (const Array& a : arrays) all.push_back(&a);
  return all;
}

}  // namespace

Judgement judge_program(const Evidence& e) {
  return judge(e.golden, "PyTorch's value", e.rounded, "the program", e.f64, pointers(e.jittered, e.rounded));
}

Judgement judge_backend(const Evidence& e) {
  return judge(e.ours, "the backend's value", e.golden, "PyTorch", e.f64, pointers(e.jittered, e.golden));
}

Judgement judge_exactly(const Array& golden, const Array& ours) {
  Judgement result;
  const Metrics m = compare(ours, golden);
  result.passed = m.differing == 0;
  result.error_max = m.max_abs;
  result.error_rms = m.rms;
  if (result.passed) return result;
  const auto at = static_cast<size_t>(m.first_difference);
  result.why = fmt::format("{} of {} {} values differ; element {} is {} and PyTorch has {}", m.differing, golden.size(),
                           name_of(golden.dtype()), at, load_int(ours)[at], load_int(golden)[at]);
  return result;
}

}  // namespace pycandle
