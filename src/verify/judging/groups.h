// The elements of a tensor in groups that are judged by themselves: every index of every axis (a channel, a head, an item of
// the batch), every row, and the elements of similar size. One RMS for a whole tensor lets its largest channel hide all others.
#pragma once

#include <string>
#include <vector>

#include "base/array.h"

namespace pycandle {

// Element i belongs to group (i / divisor) % count.
struct Grouping {
  enum class Kind { axis, rows } kind = Kind::axis;
  size_t axis = 0;
  size_t divisor = 1, count = 1;
  size_t group_of(size_t element) const { return (element / divisor) % count; }
  std::string name_of(size_t group) const;  // "at index 5 of axis 1", "in row 7"
};

// The sum of the numbers of each group.
std::vector<double> sums_of(const Grouping&, const std::vector<double>& numbers);

// Those of more than one group, each with more than one element; `parts`: numbers that an element has (2: complex).
std::vector<Grouping> groupings_of(const Sizes& shape, size_t parts = 1);

// Sets of elements whose exact values are of similar size: a level is far below the one before it. `counts`: elements that
// matter. One level: nothing hides behind anything.
std::vector<std::vector<bool>> levels_of(const std::vector<double>& exact, const std::vector<bool>& counts);

}  // namespace pycandle
