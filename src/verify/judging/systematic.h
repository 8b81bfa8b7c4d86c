// An error that goes with what a layer reads is no rounding: other weights make it.
#pragma once

#include <optional>
#include <vector>

#include "ir/graph.h"
#include "verify/judging/judge.h"

namespace pycandle {

// Of a program that is one convolution of an input: the RMS of that part of golden - exact which is a sum over the window with
// the same factors at every position. Nothing for other programs, and where the positions are too few to tell.
std::optional<double> error_of_weights(const Program& decomposed, const std::vector<Array>& inputs, const Evidence&);

}  // namespace pycandle
