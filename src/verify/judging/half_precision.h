// A sharper judge for f16 and bf16. Kernels for them compute in f32 and round once, so PyTorch's value is the reference's bit
// for bit, but for elements next to a tie. What differs by more than that, or in one direction, is no rounding, although it may
// be far below the unit roundoff of the dtype.
#pragma once

#include "verify/judging/judge.h"

namespace pycandle {

bool is_half(DType);
// Layers whose kernels were compared with PyTorch's bit by bit, elementwise ops and data movement. Kernels of other ops round
// inside where they like.
bool has_known_kernels(const Program&);
bool rounds_products(const Program&);  // some kernels of its ops do, before they add the bias
// Where the runs as kernels do them may differ: in the same group of elements as the golden, or in any group of the same kind (a
// row factor that is next to a tie turns a whole row around, each time another).
enum class AllKernels { alike, any_place };
// Is the golden what such kernels make of the program? Asked when it is within the rounding floor; `first` says so.
Judgement judge_as_kernels(const Evidence&, const Judgement& first, AllKernels = AllKernels::alike);

}  // namespace pycandle
