// What was done to a parameter, read off the values that a layer gives with it and should give: negated, scaled, rows
// swapped or zeroed, rounded.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/array.h"

namespace pycandle {

// A layer as a function of one of its parameters.
struct ParameterUse {
  Array values;                              // as they stand in the file
  Array given, wanted;                       // what the layer gives with them, and what it should give
  std::function<Array(const Array&)> layer;  // what it gives with others
  double floor = 0;                          // of rounding, in what it gives
  std::vector<int64_t> looked_up = {};       // of an embedding: the row of each vector that it gives
};

struct ParameterChange {
  std::string text;                          // "times 1.02", "with rows 3 and 7 swapped"
  // The values with that undone; empty: they are lost, and the file itself is the evidence (a row of zeros).
  std::function<Array()> undone;
};

// What may have been done, the likeliest first, until one fits. One that can be undone is to be tried.
void try_parameter_changes(const ParameterUse&, const std::function<bool(const ParameterChange&)>& fits);

}  // namespace pycandle
