#include "verify/diagnosing/parameter_rows.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "verify/judging/metrics.h"

namespace pycandle {

ParameterRows::ParameterRows(const ParameterUse& use) : use_(use) {
  if (!use.looked_up.empty()) {
    const size_t width = static_cast<size_t>(use.given.size()) / use.looked_up.size();
    for (size_t i = 0; i < static_cast<size_t>(use.given.size()); ++i) all_[use.looked_up[i / width]].places.push_back(i);
    measure();
    return;
  }
  const size_t rank = use.values.shape().size();
  if (rank == 0) return;
  // The axis whose rows are wrong only in part says most.
  std::optional<size_t> first;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (!find_axis(axis)) continue;
    measure();
    if (!wrong_.empty() && !right_.empty()) return;
    if (!first) first = axis;
  }
  if (first && find_axis(*first)) measure();
}

std::vector<size_t> ParameterRows::elements(int64_t row) const {
  const Sizes& shape = use_.values.shape();
  size_t inner = 1;
  for (size_t i = axis_ + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
  const auto size = static_cast<size_t>(shape[axis_]);
  std::vector<size_t> found;
  for (size_t start = static_cast<size_t>(row) * inner; start < static_cast<size_t>(use_.values.size()); start += size * inner) {
    for (size_t i = 0; i < inner; ++i) found.push_back(start + i);
  }
  return found;
}

// One row is changed: does that change the result at one index of one of its axes, and nowhere else?
bool ParameterRows::find_axis(size_t parameter_axis) {
  axis_ = parameter_axis;
  all_.clear();
  wrong_.clear();
  right_.clear();
  const int64_t size = use_.values.shape()[axis_], row = size / 2;
  if (size < 2) return false;
  std::vector<double> values = as_reals(use_.values);
  const double more = root_mean_square(values) + 1e-3;
  for (size_t i : elements(row)) values[i] = 2 * values[i] + more;
  const std::vector<double> before = as_reals(use_.given),
                            after = as_reals(use_.layer(store(use_.values.dtype(), use_.values.shape(), values)));
  const Sizes& shape = use_.given.shape();
  for (size_t axis = shape.size(); axis-- > 0;) {
    if (shape[axis] != size) continue;
    size_t inner = 1;
    for (size_t i = axis + 1; i < shape.size(); ++i) inner *= static_cast<size_t>(shape[i]);
    bool is_here = true;
    size_t changed = 0;
    for (size_t i = 0; i < before.size() && is_here; ++i) {
      if (same_number(before[i], after[i])) continue;
      ++changed;
      is_here = static_cast<int64_t>(i / inner) % size == row;
    }
    if (!is_here || changed == 0) continue;
    for (size_t i = 0; i < before.size(); ++i) all_[static_cast<int64_t>(i / inner) % size].places.push_back(i);
    return true;
  }
  return false;
}

void ParameterRows::measure() {
  const std::vector<double> given = as_reals(use_.given), wanted = as_reals(use_.wanted);
  std::vector<double> errors;
  for (auto& [index, row] : all_) {
    for (size_t i : row.places) {
      row.error += std::pow(given[i] - wanted[i], 2);
      row.size += std::pow(wanted[i], 2);
    }
    const auto n = static_cast<double>(row.places.size());
    row.error = std::sqrt(row.error / n);
    row.size = std::sqrt(row.size / n);
    errors.push_back(row.error);
  }
  if (errors.empty()) return;
  const auto middle = errors.begin() + static_cast<std::ptrdiff_t>(errors.size() / 2);
  std::nth_element(errors.begin(), middle, errors.end());
  // Most rows are right, or none is: then the usual error is one.
  constexpr double kRounding = 4, kFarMore = 8;
  const double u = unit_roundoff(use_.given.dtype()), usual = *middle;
  const bool most_are_wrong = usual > kRounding * std::max(use_.floor, u * root_mean_square(wanted));
  for (const auto& [index, row] : all_) {
    const bool is_wrong = row.error > kRounding * u * row.size && (most_are_wrong || row.error > kFarMore * usual);
    (is_wrong ? wrong_ : right_).push_back(index);
  }
}

std::string ParameterRows::noun(bool is_one) const { return std::string(axis_ == 0 ? "row" : "column") + (is_one ? "" : "s"); }

std::string ParameterRows::text(const std::vector<int64_t>& rows) const {
  constexpr size_t kEnough = 6;
  if (rows.size() == 1) return fmt::format("{} {}", noun(true), rows[0]);
  const bool is_run = rows.back() - rows.front() + 1 == static_cast<int64_t>(rows.size());
  if (is_run) return fmt::format("{} {} to {}", noun(), rows.front(), rows.back());
  if (rows.size() <= kEnough)
    return fmt::format("{} {} and {}", noun(), fmt::join(rows.begin(), rows.end() - 1, ", "), rows.back());
  return fmt::format("{} {} ({}, …)", rows.size(), noun(), rows.front());
}

}  // namespace pycandle
