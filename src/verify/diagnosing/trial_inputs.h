// Inputs at which two programs that agree on the recorded ones may part: random ones, edge values, other sizes.
#pragma once

#include <string>
#include <vector>

#include "base/array.h"
#include "ir/op_def.h"

namespace pycandle {

struct TrialInputs {
  std::string what;           // "random inputs with s0 = 1", "zeros"
  std::vector<Array> arrays;  // in the order of Program::inputs
  bool is_finite = true;
};

// Floats standard normal and integers within the recorded range, at the recorded sizes and at others; then 0, negative,
// tiny and huge floats, the ends of the range of integers, and last infinities and NaN.
std::vector<TrialInputs> trial_inputs(const Program&);

// The same array at edge values: zeros, tiny and huge ones, another sign, other random numbers. No number is negative when
// none of these is, for then it cannot be; integers are these, 0 or 1.
std::vector<std::pair<std::string, Array>> variants_of(const Array&);

}  // namespace pycandle
