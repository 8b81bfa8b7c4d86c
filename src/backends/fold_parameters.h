// What depends on parameters and constants alone is computed when a program is compiled, not in every run.
//
//   %3 = transpose(%weight)                       %3 is the parameter "folded.0"
#pragma once

#include <memory>

#include "params/parameters.h"
#include "passes/pipeline.h"

namespace pycandle {

struct FoldedProgram {
  Program program;
  std::shared_ptr<const ParameterSource> parameters;  // those of before, and the folded ones
};

// Primitives whose sizes are numbers (at_sizes) and that draw no random numbers. A result that is larger than `most_growth` times
// its operands together is left to the run, unless it is small: a bias repeated for every row is read where it lies.
FoldedProgram fold_parameters(Program, const OpTable&, std::shared_ptr<const ParameterSource>, double most_growth = 1);

}  // namespace pycandle
