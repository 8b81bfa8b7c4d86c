// The elements of a tensor in groups that are judged by themselves: every index of every axis (a channel, a head, an item of
// the batch), every row, and the elements of similar size. One RMS for a whole tensor lets its largest channel hide all others.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/array.h"
#include "base/threads.h"

namespace pycandle {

// Element i belongs to group (i / divisor) % count.
struct Grouping {
  enum class Kind { axis, rows } kind = Kind::axis;
  size_t axis = 0;
  size_t divisor = 1, count = 1;
  size_t group_of(size_t element) const { return (element / divisor) % count; }
  std::string name_of(size_t group) const;  // "at index 5 of axis 1", "in row 7"
};

// Those of more than one group, each with more than one element; `parts`: numbers that an element has (2: complex).
std::vector<Grouping> groupings_of(const Sizes& shape, size_t parts = 1);

// Numbers that are added up over each group: a line of them for a group.
struct GroupSums {
  GroupSums(size_t groups, size_t width) : width(width), lines(groups * width) {}
  double* of(size_t group) { return lines.data() + group * width; }
  const double* of(size_t group) const { return lines.data() + group * width; }
  void add(size_t group, const double* line) {
    double* to = of(group);
    for (size_t k = 0; k < width; ++k) to[k] += line[k];
  }
  size_t width;
  std::vector<double> lines;
};

// `fill(i, line)` gives the numbers of element i; `row`: the elements of a row. One pass over the elements serves all groupings:
// the sums of rows and of places in a row come out of it, and those of other axes out of the rows'. The order of additions does
// not depend on the number of threads.
template <class Fill>
std::vector<GroupSums> sums_over(const std::vector<Grouping>& groupings, size_t elements, size_t row, size_t width,
                                 const Fill& fill) {
  constexpr size_t kFewest = size_t{1} << 15, kMostParts = 8;  // elements of a part; parts
  const size_t rows = elements / row;
  const size_t in_part = std::max<size_t>({1, kFewest / row, (rows + kMostParts - 1) / kMostParts});
  const size_t parts = (rows + in_part - 1) / in_part;
  GroupSums of_rows(rows, width);
  std::vector<GroupSums> of_places(parts, GroupSums(row, width));
  parallel_for(static_cast<int64_t>(parts), 1, [&](int64_t begin, int64_t end) {
    std::vector<double> line(width);
    for (auto part = static_cast<size_t>(begin); part < static_cast<size_t>(end); ++part) {
      for (size_t r = part * in_part; r < std::min(rows, (part + 1) * in_part); ++r) {
        for (size_t i = 0; i < row; ++i) {
          fill(r * row + i, line.data());
          of_rows.add(r, line.data());
          of_places[part].add(i, line.data());
        }
      }
    }
  });
  std::vector<GroupSums> sums;
  for (const Grouping& g : groupings) {
    GroupSums& of_groups = sums.emplace_back(g.count, width);
    if (g.divisor < row) {
      for (const GroupSums& places : of_places) {
        for (size_t i = 0; i < row; ++i) of_groups.add(g.group_of(i), places.of(i));
      }
    } else {
      for (size_t r = 0; r < rows; ++r) of_groups.add(g.group_of(r * row), of_rows.of(r));
    }
  }
  return sums;
}

// Sets of elements whose exact values are of similar size: a level is far below the one before it. `counts`: elements that
// matter. One level: nothing hides behind anything.
std::vector<std::vector<bool>> levels_of(const std::vector<double>& exact, const std::vector<bool>& counts);

}  // namespace pycandle
