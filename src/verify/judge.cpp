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

// max(|witness − f64| for every witness, u · RMS). Where the exact value is no number, the one that must agree is the truth.
Floor floor_of(const Array& f64, const Array& must_agree, const std::vector<const Array*>& witnesses) {
  const DType dtype = must_agree.dtype();
  Floor floor;
  floor.exact = as_reals(f64);
  const std::vector<double> other = as_reals(must_agree);
  std::vector<double> usual;  // what the scale is made of
  for (double v : floor.exact) {
    if (std::isfinite(v) && !is_sentinel(v, dtype)) usual.push_back(v);
  }
  floor.scale = root_mean_square(usual);
  for (size_t i = 0; i < other.size(); ++i) {
    if (!std::isfinite(floor.exact[i])) floor.exact[i] = other[i];
  }
  floor.allowed.assign(floor.exact.size(), unit_roundoff(dtype) * floor.scale);
  for (const Array* w : witnesses) {
    const std::vector<double> seen = as_reals(*w);
    for (size_t i = 0; i < seen.size(); ++i) {
      if (std::isfinite(seen[i])) floor.allowed[i] = std::max(floor.allowed[i], std::abs(seen[i] - floor.exact[i]));
    }
  }
  return floor;
}

// |candidate − exact| against the floor. `must_agree` decides with the candidate where NaN and infinities stand.
Judgement judge(const Array& candidate, const std::string& name, const Array& must_agree, const std::string& agree_name,
                const Floor& by) {
  const DType dtype = candidate.dtype();
  const double u = unit_roundoff(dtype);
  const std::vector<double> values = as_reals(candidate), other = as_reals(must_agree);
  Judgement result;
  result.scale = by.scale;
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
    const double truth = by.exact[i];
    const double difference = std::abs(values[i] - truth);
    if (is_sentinel(truth, dtype)) {
      if (difference <= kMaxFactor * u * std::abs(truth)) continue;
      result.passed = false;
      result.why = fmt::format("{} has {} where the program gives {}, at element {}", name, number_text(values[i]),
                               number_text(truth), i);
      return result;
    }
    error.add(difference);
    floor.add(by.allowed[i]);
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
  return judge(e.golden, e.whose + "'s value", e.rounded, "the program",
               floor_of(e.f64, e.rounded, pointers(e.jittered, e.rounded)));
}

Floor backend_floor(const Evidence& e) { return floor_of(e.f64, e.golden, pointers(e.jittered, e.golden)); }

Judgement judge_backend(const Evidence& e) { return judge_backend(e, backend_floor(e)); }

Judgement judge_backend(const Evidence& e, const Floor& floor) {
  return judge(e.ours, "the backend's value", e.golden, e.whose, floor);
}

Judgement judge_exactly(const Array& golden, const Array& ours, const std::string& whose) {
  Judgement result;
  const Metrics m = compare(ours, golden);
  result.passed = m.differing == 0;
  result.error_max = m.max_abs;
  result.error_rms = m.rms;
  if (result.passed) return result;
  const auto at = static_cast<size_t>(m.first_difference);
  result.why = fmt::format("{} of {} {} values differ; element {} is {} and {} has {}", m.differing, golden.size(),
                           name_of(golden.dtype()), at, load_int(ours)[at], whose, load_int(golden)[at]);
  return result;
}

}  // namespace pycandle
