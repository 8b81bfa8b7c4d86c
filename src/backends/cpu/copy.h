// Elements from one view to another of the same sizes, whatever the strides: the copy kernel with loops around it for
// views of more axes than it takes.
#pragma once

#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/view.h"

namespace pycandle::cpu {

struct StridedCopy {
  Copy inner;
  Sizes outer, from, to;  // sizes and strides of the axes around it; mostly none
};
StridedCopy strided_copy(const View& from, const View& to);
void run_copy(const StridedCopy&, const std::byte* from, std::byte* to, int threads);

}  // namespace pycandle::cpu
