// What the elements of a tensor look like: for a person who looks for dead, damaged or odd weights.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace pycandle {

struct Statistics {
  double min = std::numeric_limits<double>::infinity(), max = -min, sum = 0, squares = 0;
  int64_t count = 0, nan = 0, infinite = 0, zeros = 0;

  void add(double v) {
    ++count;
    if (std::isnan(v)) {
      ++nan;
    } else if (std::isinf(v)) {
      ++infinite;
    } else {
      zeros += v == 0;
      min = std::min(min, v);
      max = std::max(max, v);
      sum += v;
      squares += v * v;
    }
  }
  int64_t finite() const { return count - nan - infinite; }
  double mean() const { return sum / static_cast<double>(finite()); }
  double deviation() const { return std::sqrt(std::max(0.0, squares / static_cast<double>(finite()) - mean() * mean())); }
  // What a person should look at.
  std::string oddity() const {
    if (nan > 0) return fmt::format("{} NaN", nan);
    if (infinite > 0) return fmt::format("{} infinite", infinite);
    if (count > 1 && zeros == count) return "all zero";
    if (count > 1 && min == max) return "constant";
    return {};
  }
};

}  // namespace pycandle
