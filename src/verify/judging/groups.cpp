#include "verify/judging/groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace pycandle {

std::string Grouping::name_of(size_t group) const {
  return kind == Kind::rows ? fmt::format("in row {}", group) : fmt::format("at index {} of axis {}", group, axis);
}

std::vector<Grouping> groupings_of(const Sizes& shape, size_t parts) {
  std::vector<Grouping> groupings;
  size_t total = parts;
  for (int64_t size : shape) total *= static_cast<size_t>(size);
  const auto add = [&](const Grouping& g) {
    const bool is_known = std::any_of(groupings.begin(), groupings.end(), [&](const Grouping& other) {
      return other.divisor == g.divisor && other.count == g.count;
    });
    if (g.count > 1 && g.count < total && !is_known) groupings.push_back(g);
  };
  if (total == 0) return groupings;
  size_t stride = parts;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto size = static_cast<size_t>(shape[axis]);
    add({Grouping::Kind::axis, axis, stride, size});
    stride *= size;
    if (axis + 1 == shape.size() && shape.size() > 2) add({Grouping::Kind::rows, 0, stride, total / stride});
  }
  return groupings;
}

std::vector<std::vector<bool>> levels_of(const std::vector<double>& exact, const std::vector<bool>& counts) {
  constexpr double kFarBelow = 64;
  constexpr size_t kFewest = 16;  // a level of fewer elements is part of the one above
  std::vector<std::vector<bool>> levels;
  std::vector<bool> rest = counts;
  for (;;) {
    double squares = 0;
    size_t count = 0;
    for (size_t i = 0; i < exact.size(); ++i) {
      if (!rest[i]) continue;
      squares += exact[i] * exact[i];
      ++count;
    }
    const double bound = std::sqrt(squares / std::max<double>(1, static_cast<double>(count))) / kFarBelow;
    const auto is_below = [&](size_t i) -> bool { return int{rest[i]} & int{std::abs(exact[i]) < bound}; };  // no branch
    size_t count_below = 0;
    for (size_t i = 0; i < exact.size(); ++i) count_below += is_below(i);
    if (count_below < kFewest || count_below == count) {
      levels.push_back(std::move(rest));
      return levels;
    }
    std::vector<bool> level = rest, below(exact.size());
    for (size_t i = 0; i < exact.size(); ++i) {
      below[i] = is_below(i);
      level[i] = rest[i] && !below[i];
    }
    levels.push_back(std::move(level));
    rest = std::move(below);
  }
}

}  // namespace pycandle
