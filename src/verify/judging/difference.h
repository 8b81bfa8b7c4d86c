// Where two arrays differ and by how much, small enough for a result file: pages and terminals draw it.
#pragma once

#include <string>
#include <vector>

#include "base/array.h"

namespace pycandle {

// The array as a plane, its last axis across and all others down, in at most so many cells. A cell is the largest difference
// in it: '.' none, '!' a number on one side only, 'z' the binary order of the largest difference of all, 'y' half of that,
// down to 'a', which is all below.
struct DifferencePicture {
  int64_t rows = 0, columns = 0;
  std::string cells;             // row by row; empty: nothing differs, or the sizes do
  double largest = 0;            // of the differences that are numbers
  int first_decade = 0;
  std::vector<int64_t> decades;  // elements that differ by 10^(first_decade + i) up to ten times that

  bool empty() const { return cells.empty(); }
  char cell(int64_t row, int64_t column) const { return cells[static_cast<size_t>(row * columns + column)]; }
};

struct PictureSize {
  int64_t rows = 12, columns = 32;
};
DifferencePicture picture_of_difference(const Array& got, const Array& expected, PictureSize most = {});

// The colour of a cell between 0 (the smallest difference) and 1 (the largest), the same in every drawing.
struct Colour {
  unsigned char red, green, blue;
};
Colour heat_colour(double share);
Colour cell_colour(char cell);

// The picture as a PNG, with cells as large as a few hundred pixels allow.
std::string difference_png(const DifferencePicture&);

}  // namespace pycandle
