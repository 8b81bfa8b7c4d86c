// Elements from one view to another of the same sizes, whatever the strides.
#pragma once

#include "backends/cpu/view.h"

namespace pycandle::cpu {

// Axes that need no loop of their own joined: the fewest that walk both the same way.
struct CopyShape {
  Sizes sizes, from, to;  // strides in elements
  size_t element = 4;     // bytes
};
CopyShape copy_shape(const View& from, const View& to);
void strided_copy(const CopyShape&, const std::byte* from, std::byte* to, int threads);

}  // namespace pycandle::cpu
