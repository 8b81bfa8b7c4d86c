#include "verify/judging/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

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

// RMS and largest element of |values − exact| and of the floor, where `counts`.
void measure(const std::vector<double>& values, const Floor& by, const std::vector<bool>& counts, Judgement& result) {
  Sums error, floor;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!counts[i]) continue;
    error.add(std::abs(values[i] - by.exact[i]));
    floor.add(by.allowed[i]);
  }
  const double n = std::max<double>(1, static_cast<double>(std::count(counts.begin(), counts.end(), true)));
  result.error_rms = std::sqrt(error.squares / n);
  result.error_max = error.max;
  result.floor_rms = std::sqrt(floor.squares / n);
  result.floor_max = floor.max;
}

void decide(const std::string& name, const std::string& where, Judgement& result) {
  const bool rms_fits = result.error_rms <= kRmsFactor * result.floor_rms,
             max_fits = result.error_max <= kMaxFactor * result.floor_max;
  result.passed = rms_fits && max_fits;
  if (result.passed) return;
  const bool by_rms = !rms_fits;
  const double err = by_rms ? result.error_rms : result.error_max, allowed = by_rms ? result.floor_rms : result.floor_max;
  const std::string times = allowed > 0 ? fmt::format("{:.3g} times the rounding floor of {:.2g}", err / allowed, allowed)
                                        : std::string("where rounding allows nothing");
  result.why = fmt::format("{} is {:.2g} ({}) from the program's exact value{}, {}", name, err, by_rms ? "rms" : "max", where,
                           times);
}

// Rows whose value is rounding alone (attention of a padded query: all of its scores drown in the mask) would hide every
// error of the others. When a wide gap lies between their floors and those of the other rows, `counts` becomes the others.
bool leave_out_unstable_rows(const Floor& by, const Sizes& shape, DType dtype, std::vector<bool>& counts) {
  constexpr double kGap = 64;
  constexpr size_t kFewest = 4;  // in a row: fewer may all be close to the exact value by chance
  const double unstable = std::sqrt(unit_roundoff(dtype)) * by.scale;
  if (std::none_of(by.allowed.begin(), by.allowed.end(), [&](double v) { return v > unstable; })) return false;
  const size_t width = shape.empty() ? 0
                                     : by.allowed.size() / static_cast<size_t>(element_count({shape.begin(), shape.end() - 1}));
  if (width < kFewest) return false;
  std::vector<double> floors;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i % width == 0) floors.push_back(0);
    if (counts[i]) floors.back() = std::max(floors.back(), by.allowed[i]);
  }
  double highest_stable = 0, lowest_unstable = std::numeric_limits<double>::infinity();
  for (double f : floors) {
    if (f > unstable)
      lowest_unstable = std::min(lowest_unstable, f);
    else
      highest_stable = std::max(highest_stable, f);
  }
  if (highest_stable == 0 || highest_stable * kGap > lowest_unstable) return false;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = counts[i] && floors[i / width] <= unstable;
  return true;
}

// NaN, infinities and sentinels stand where they should; those elements no longer count. Else why not.
std::optional<std::string> special_mismatch(const std::vector<double>& values, const std::string& name,
                                            const std::vector<double>& other, const std::string& agree_name,
                                            const std::vector<double>& exact, DType dtype, std::vector<bool>& counts) {
  const double u = unit_roundoff(dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]) || !std::isfinite(other[i])) {
      counts[i] = false;
      if (same_number(values[i], other[i])) continue;
      return fmt::format("{} has {} where {} has {}, at element {}", name, number_text(values[i]), agree_name,
                         number_text(other[i]), i);
    }
    const double truth = exact[i];
    if (is_sentinel(truth, dtype)) {
      counts[i] = false;
      if (std::abs(values[i] - truth) <= kMaxFactor * u * std::abs(truth)) continue;
      return fmt::format("{} has {} where the program gives {}, at element {}", name, number_text(values[i]), number_text(truth),
                         i);
    }
  }
  return std::nullopt;
}

// |candidate − exact| against the floor. `must_agree` decides with the candidate where NaN and infinities stand.
Judgement judge(const Array& candidate, const std::string& name, const Array& must_agree, const std::string& agree_name,
                const Floor& by) {
  const DType dtype = candidate.dtype();
  const std::vector<double> values = as_reals(candidate), other = as_reals(must_agree);
  Judgement result;
  result.scale = by.scale;
  std::vector<bool> counts(values.size(), true);
  if (auto why = special_mismatch(values, name, other, agree_name, by.exact, dtype, counts)) {
    result.passed = false;
    result.why = *std::move(why);
    return result;
  }
  measure(values, by, counts, result);
  decide(name, "", result);
  if (!result.passed || !leave_out_unstable_rows(by, candidate.shape(), dtype, counts)) return result;
  Judgement of_stable_rows = result;
  measure(values, by, counts, of_stable_rows);
  decide(name, " in the rows that are stable", of_stable_rows);
  return of_stable_rows.passed ? result : of_stable_rows;
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

RunFloor run_floor(const Evidence& e) {
  const Judgement program = judge_program(e);
  if (!program.passed) return {program.floor_rms, program.floor_max, program.scale};
  Evidence with_golden = e;
  with_golden.ours = e.rounded;
  const Judgement backend = judge_backend(with_golden);
  return {backend.floor_rms, backend.floor_max, backend.scale};
}

Judgement judge_whole_run(const Array& golden, const Array& ours, const RunFloor& floor) {
  const std::vector<double> values = as_reals(ours), expected = as_reals(golden);
  Judgement result;
  result.scale = floor.scale;
  std::vector<bool> counts(values.size(), true);
  if (auto why = special_mismatch(values, "ours", expected, "the golden", expected, golden.dtype(), counts)) {
    result.passed = false;
    result.why = *std::move(why);
    return result;
  }
  measure(values, {expected, std::vector<double>(values.size()), floor.scale}, counts, result);
  result.floor_rms = floor.rms;
  result.floor_max = floor.max;
  result.passed = result.error_rms <= kRmsFactor * floor.rms && result.error_max <= kMaxFactor * floor.max;
  if (!result.passed)
    result.why = fmt::format("ours is {:.2g} (rms) from the golden, rounding in the whole run comes to {:.2g}", result.error_rms,
                             floor.rms);
  return result;
}

std::optional<std::string> instability(const Judgement& j, DType dtype) {
  if (j.floor_rms <= std::sqrt(unit_roundoff(dtype)) * j.scale) return std::nullopt;
  return fmt::format("rounding alone moves this value by {:.2g} of its size", j.floor_rms / j.scale);
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
