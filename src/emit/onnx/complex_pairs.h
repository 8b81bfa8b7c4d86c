// ONNX Runtime computes with no complex numbers. They become pairs of real ones along a last axis of 2, as ONNX's own DFT has
// them:
//
//   %2 = cast(%1) {dtype = c64}: c64[s0, 9]                 %2 = concat(…, …) {axis = 2}: f32[s0, 9, 2]
//   %3 = fft(%2) {axis = 1, inverse = false}          →     %3 = dft_of_pairs(%2) {axis = 1, inverse = false}
//   %4 = abs(%3): f32[s0, 9]                                %4 = sqrt(…)
#pragma once

#include "ir/op_def.h"

namespace pycandle::emit::onnx {

inline constexpr const char* kDftOfPairs = "dft_of_pairs";

// Complex inputs and outputs are pairs, too. What stays complex has no such form.
Program with_complex_pairs(Program, const OpTable&);

}  // namespace pycandle::emit::onnx
