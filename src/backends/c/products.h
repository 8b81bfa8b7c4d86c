// Weights in the order in which products read them.
#pragma once

#include "base/array.h"

namespace pycandle::c {

// [columns / width][depth][width]: the columns of a panel next to each other, zeros where there are none.
Array packed_panels(const Array& matrix, int64_t columns, int64_t depth, int64_t column_stride, int64_t depth_stride,
                    int64_t width);

}  // namespace pycandle::c
