// What torch's reductions share: which axes, and the shape that remains.
#pragma once

#include "ops/core/aten_call.h"

namespace pycandle {

Ints reduced_axes(AtenCall&, int64_t rank);  // of the argument `dim`, sorted and not negative; all of them for None and []
bool keeps_axes(AtenCall&);                  // the argument `keepdim`, when there is one
Shape reduced_shape(const Shape&, const Ints& axes, bool keep);

}  // namespace pycandle
