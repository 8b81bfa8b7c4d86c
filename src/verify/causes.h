// Why a value is wrong: the mistake that, made on purpose, gives exactly that value. docs/verification.md has the method.
#pragma once

#include <string>
#include <vector>

#include "verify/slices.h"
#include "verify/trials.h"

namespace pycandle {

// What is to be explained: a value that the program does not give.
struct Suspect {
  const Program& program;            // the whole one: its parameters are searched for the right weight
  const Slice& slice;                // what was run …
  const std::vector<Array>& inputs;  // … from these values …
  const Array& value;                // … and this came out; or this is what should have come out
  bool is_backend = false;           // the backend's wrong value; else PyTorch's, which the program does not give
  double floor_rms = 0, floor_max = 0;  // of rounding, without any mistake
  // Values of the slice's type that are known beside it, with their names: one of them may have been left out.
  std::vector<std::pair<std::string, Array>> beside;
};

struct Cause {
  std::string kind, sentence;        // "gelu form", "looks like the tanh GELU where the model uses the erf GELU"
  int32_t node = -1;                 // of the slice's program
};

struct Causes {
  std::vector<Cause> found;          // more than one: several mistakes would give the value
  int tried = 0;
  // The one cause, when all that was found is of one kind.
  const Cause* only() const;
  std::string text() const;          // for a person: the cause, that several would do, or that none fits
};

// Gives up after so many seconds.
Causes find_causes(const Suspect&, const Trials&, double seconds = 20);

}  // namespace pycandle
