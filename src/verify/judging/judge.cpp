#include "verify/judging/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "verify/judging/groups.h"

namespace pycandle {
namespace {

// Masks are filled with the lowest number of a dtype; one of those would hide every other error of its tensor.
bool is_sentinel(double v, DType dtype) { return std::abs(v) >= highest_of(real_of(dtype)) / 4; }

std::string number_text(double v) { return fmt::format("{:.6g}", v); }

// |witness − f64| for every witness. Where the exact value is no number, the one that must agree is the truth.
Floor floor_of(const Array& f64, const Array& must_agree, const std::vector<const Array*>& witnesses) {
  const DType dtype = must_agree.dtype();
  Floor floor;
  floor.exact = as_reals(f64);
  const std::vector<double> other = as_reals(must_agree);
  double squares = 0, usual = 0;  // what the scale is made of
  for (double v : floor.exact) {
    if (!std::isfinite(v) || is_sentinel(v, dtype)) continue;
    squares += v * v;
    ++usual;
  }
  floor.scale = usual > 0 ? std::sqrt(squares / usual) : 0;
  for (size_t i = 0; i < other.size(); ++i) {
    if (!std::isfinite(floor.exact[i])) floor.exact[i] = other[i];
  }
  for (const Array* w : witnesses) {
    std::vector<double> off = as_reals(*w);
    for (size_t i = 0; i < off.size(); ++i) off[i] = std::isfinite(off[i]) ? std::abs(off[i] - floor.exact[i]) : 0;
    floor.witnesses.push_back(std::move(off));
  }
  return floor;
}

// Below this a dtype has no full precision, and implementations may give zero.
double least_of(DType dtype) {
  switch (real_of(dtype)) {
    case DType::f64: return std::numeric_limits<double>::min();
    case DType::f16: return 0x1p-24;
    default: return std::numeric_limits<float>::min();
  }
}

// RMS and largest element of |values − exact| and of the floor, where `counts`.
void measure(const std::vector<double>& values, const Floor& by, DType dtype, const std::vector<bool>& counts,
             Judgement& result) {
  double errors = 0, n = 0, sizes = 0;
  result.error_max = result.floor_max = 0;
  std::vector<double> squares(by.witnesses.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!counts[i]) continue;
    ++n;
    const double error = std::abs(values[i] - by.exact[i]);
    errors += error * error;
    sizes += by.exact[i] * by.exact[i];
    result.error_max = std::max(result.error_max, error);
    for (size_t w = 0; w < squares.size(); ++w) {
      const double off = by.witnesses[w][i];
      squares[w] += off * off;
      result.floor_max = std::max(result.floor_max, off);
    }
  }
  n = std::max(n, 1.0);
  const double least = std::max(unit_roundoff(dtype) * std::sqrt(sizes / n), least_of(dtype));
  result.error_rms = std::sqrt(errors / n);
  result.floor_rms = least;
  for (double s : squares) result.floor_rms = std::max(result.floor_rms, std::sqrt(s / n));
  result.floor_max = std::max(result.floor_max, least);
}

std::string beyond_floor(const std::string& name, double error, const char* measure, const std::string& where, double floor) {
  return fmt::format("{} is {:.2g} ({}) from the program's exact value{}, {} times the rounding floor of {:.2g}", name, error,
                     measure, where, in_three_digits(error / floor), floor);
}

void decide(const std::string& name, const std::string& where, Judgement& result) {
  const bool rms_fits = result.error_rms <= kRmsFactor * result.floor_rms,
             max_fits = result.error_max <= kMaxFactor * result.floor_max;
  result.passed = rms_fits && max_fits;
  if (result.passed) return;
  result.why = rms_fits ? beyond_floor(name, result.error_max, "max", where, result.floor_max)
                        : beyond_floor(name, result.error_rms, "rms", where, result.floor_rms);
}

// How many floors the RMS of a group of n elements may be: of one element it is as uncertain as the largest of all. And of many
// groups the worst is looked at: the sum of v squared errors is beyond v + 2 √(v t) + 2 t with a chance of e^-t at most (Laurent
// and Massart 2000), so one of e^t groups is expected there.
double group_factor(double n, double independent, size_t groups) {
  constexpr double kFewer = kMaxFactor * kMaxFactor / (kRmsFactor * kRmsFactor) - 1;
  const double share = std::log(static_cast<double>(groups)) / independent;
  return kRmsFactor * std::sqrt(1 + std::max(kFewer / n, 2 * std::sqrt(share) + 2 * share));
}

// What is added up over a group: squares, of the elements that count.
enum Sum : size_t { kCount, kErrors, kSizes, kFloors, kFloorsSquared, kWitnesses };  // of a floor also the number itself

std::vector<GroupSums> squares_of(const std::vector<double>& values, const Floor& by, const std::vector<bool>& counts, double u,
                                  const std::vector<Grouping>& groupings, size_t row) {
  const size_t witnesses = by.witnesses.size();
  return sums_over(groupings, values.size(), row, kWitnesses + witnesses, [&](size_t i, double* line) {
    if (!counts[i]) return std::fill_n(line, kWitnesses + witnesses, 0.0), void();
    const double error = values[i] - by.exact[i], size = u * by.exact[i];
    double floor = size * size;
    line[kCount] = 1;
    line[kErrors] = error * error;
    line[kSizes] = floor;
    for (size_t w = 0; w < witnesses; ++w) {
      const double off = by.witnesses[w][i] * by.witnesses[w][i];
      line[kWitnesses + w] = off;
      floor = std::max(floor, off);
    }
    line[kFloors] = std::sqrt(floor);
    line[kFloorsSquared] = floor;
  });
}

// The group that is furthest beyond what it may be off, where one is.
void judge_groups(const GroupSums& squares, const Grouping& grouping, const std::string& name, DType dtype, Judgement& result) {
  const double least = least_of(dtype);
  double worst = 1;
  for (size_t g = 0; g < grouping.count; ++g) {
    const double* sum = squares.of(g);
    const double n = sum[kCount];
    if (n == 0) continue;
    double largest = sum[kSizes];
    for (size_t w = kWitnesses; w < squares.width; ++w) largest = std::max(largest, sum[w]);
    const double floor = std::max(std::sqrt(largest / n), least), error = std::sqrt(sum[kErrors] / n);
    // A row behind a ReLU may have one element that is not zero: it counts as one.
    const double independent = sum[kFloorsSquared] > 0 ? sum[kFloors] * sum[kFloors] / sum[kFloorsSquared] : n;
    const double ratio = error / (group_factor(n, independent, grouping.count) * floor);
    if (ratio <= worst) continue;
    worst = ratio;
    result.passed = false;
    result.error_rms = error;
    result.floor_rms = floor;
    result.why = beyond_floor(name, error, "rms", " " + grouping.name_of(g), floor);
  }
}

// A few large elements must not hide the others.
void judge_levels(const std::vector<double>& values, const Floor& by, const std::string& name, DType dtype,
                  const std::vector<bool>& counts, Judgement& result) {
  const std::vector<std::vector<bool>> levels = levels_of(by.exact, counts);
  for (size_t k = 1; k < levels.size(); ++k) {
    Judgement level = result;
    measure(values, by, dtype, levels[k], level);
    if (level.error_rms <= kMaxFactor * level.floor_rms) continue;
    level.passed = false;
    level.why = beyond_floor(name, level.error_rms, "rms", " in its smaller elements", level.floor_rms);
    result = std::move(level);
    return;
  }
}

// Rows whose value is rounding alone (attention of a padded query: all of its scores drown in the mask) would hide every
// error of the others. When a wide gap lies between their floors and those of the other rows, `counts` becomes the others.
bool leave_out_unstable_rows(const Floor& by, const Sizes& shape, DType dtype, std::vector<bool>& counts) {
  constexpr double kGap = 64;
  constexpr size_t kFewest = 4;  // in a row: fewer may all be close to the exact value by chance
  const double unstable = std::sqrt(unit_roundoff(dtype)) * by.scale;
  const auto is_unstable = [&](const std::vector<double>& off) {
    return std::any_of(off.begin(), off.end(), [&](double v) { return v > unstable; });
  };
  if (std::none_of(by.witnesses.begin(), by.witnesses.end(), is_unstable)) return false;
  const size_t width = shape.empty() ? 0 : by.exact.size() / static_cast<size_t>(element_count({shape.begin(), shape.end() - 1}));
  if (width < kFewest) return false;
  std::vector<double> floors;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i % width == 0) floors.push_back(0);
    if (!counts[i]) continue;
    for (const std::vector<double>& off : by.witnesses) floors.back() = std::max(floors.back(), off[i]);
  }
  double highest_stable = unit_roundoff(dtype) * by.scale, lowest_unstable = std::numeric_limits<double>::infinity();
  for (double f : floors) {
    if (f > unstable)
      lowest_unstable = std::min(lowest_unstable, f);
    else
      highest_stable = std::max(highest_stable, f);
  }
  if (highest_stable * kGap > lowest_unstable) return false;
  for (size_t i = 0; i < counts.size(); ++i) counts[i] = counts[i] && floors[i / width] <= unstable;
  return std::find(counts.begin(), counts.end(), true) != counts.end();
}

// NaN, infinities and sentinels stand where they should; those elements no longer count. Else why not.
std::optional<std::string> special_mismatch(const std::vector<double>& values, const std::string& name,
                                            const std::vector<double>& other, const std::string& agree_name, const Floor& by,
                                            DType dtype, std::vector<bool>& counts) {
  const double u = unit_roundoff(dtype);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!std::isfinite(values[i]) || !std::isfinite(other[i])) {
      counts[i] = false;
      if (same_number(values[i], other[i])) continue;
      return fmt::format("{} has {} where {} has {}, at element {}", name, number_text(values[i]), agree_name,
                         number_text(other[i]), i);
    }
    const double truth = by.exact[i];
    if (is_sentinel(truth, dtype)) {
      counts[i] = false;
      double floor = u * std::abs(truth);  // f16 has its own large numbers, which err like any other
      for (const std::vector<double>& off : by.witnesses) floor = std::max(floor, off[i]);
      if (std::abs(values[i] - truth) <= kMaxFactor * floor) continue;
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
  if (auto why = special_mismatch(values, name, other, agree_name, by, dtype, counts)) {
    result.passed = false;
    result.why = *std::move(why);
    return result;
  }
  measure(values, by, dtype, counts, result);
  decide(name, "", result);
  std::vector<bool> stable = counts;
  if (result.passed && leave_out_unstable_rows(by, candidate.shape(), dtype, stable)) {
    Judgement of_stable_rows = result;
    measure(values, by, dtype, stable, of_stable_rows);
    decide(name, " in the rows that are stable", of_stable_rows);
    if (!of_stable_rows.passed) return of_stable_rows;
  }
  const size_t parts = is_complex(dtype) ? 2 : 1;
  const std::vector<Grouping> groupings = groupings_of(candidate.shape(), parts);
  if (result.passed && !groupings.empty()) {
    const size_t row = static_cast<size_t>(candidate.shape().back()) * parts;
    const std::vector<GroupSums> squares = squares_of(values, by, counts, unit_roundoff(dtype), groupings, row);
    for (size_t i = 0; i < groupings.size(); ++i) {
      if (result.passed) judge_groups(squares[i], groupings[i], name, dtype, result);
    }
  }
  if (result.passed) judge_levels(values, by, name, dtype, counts, result);
  return result;
}

std::vector<const Array*> witnesses_of(const Evidence& e, const Array& first) {
  std::vector<const Array*> all{&first};
  for (const std::vector<Array>* runs : {&e.jittered, &e.as_kernels}) {
    for (const Array& a : *runs) all.push_back(&a);
  }
  return all;
}

}  // namespace

std::string in_three_digits(double ratio) {
  if (ratio < 1000 || ratio >= 1e9) return fmt::format("{:.3g}", ratio);
  const double unit = std::pow(10, std::floor(std::log10(ratio)) - 2);
  return fmt::format("{}", fmt::group_digits(static_cast<int64_t>(std::round(ratio / unit) * unit)));
}

Judgement judge_program(const Evidence& e) {
  return judge(e.golden, e.whose + "'s value", e.rounded, "the program", floor_of(e.f64, e.rounded, witnesses_of(e, e.rounded)));
}

// One witness, the largest of all: less to keep.
Floor backend_floor(const Evidence& e) {
  Floor floor = floor_of(e.f64, e.golden, witnesses_of(e, e.golden));
  std::vector<double>& all = floor.witnesses[0];
  for (const std::vector<double>& off : floor.witnesses) {
    for (size_t i = 0; i < all.size(); ++i) all[i] = std::max(all[i], off[i]);
  }
  floor.witnesses.resize(1);
  return floor;
}

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
  const Floor exactly{expected, {}, floor.scale};
  if (auto why = special_mismatch(values, "ours", expected, "the golden", exactly, golden.dtype(), counts)) {
    result.passed = false;
    result.why = *std::move(why);
    return result;
  }
  measure(values, exactly, golden.dtype(), counts, result);
  result.floor_rms = floor.rms;
  result.floor_max = floor.max;
  result.passed = result.error_rms <= kRmsFactor * floor.rms && result.error_max <= kMaxFactor * floor.max;
  if (!result.passed)
    result.why = fmt::format("ours is {:.2g} (rms) from the golden, rounding in the whole run comes to {:.2g}", result.error_rms,
                             floor.rms);
  return result;
}

bool is_one_rounding(const Array& golden, const Array& ours) {
  return judge(ours, "ours", golden, "the golden", floor_of(golden, golden, {})).passed;
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
