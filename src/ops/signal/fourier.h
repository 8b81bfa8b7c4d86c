// Fourier transforms of torch's kinds, in terms of the primitive fft.
#pragma once

#include <string>

#include "ops/core/functional_helpers.h"

namespace pycandle {

// What a transform over n points is divided by.
enum class FourierScale { nothing, root_of_n, n };

// Complex to complex over the axes.
ValueId fourier(Builder&, ValueId x, const Ints& axes, bool inverse, FourierScale);
// Real to complex over the axes, e^-i…; onesided keeps n / 2 + 1 points of the last of them.
ValueId fourier_of_real(Builder&, ValueId x, const Ints& axes, FourierScale, bool onesided);
// Complex to real, e^+i…: the last of the axes has n / 2 + 1 points, and n in the result.
ValueId fourier_to_real(Builder&, ValueId x, const Ints& axes, FourierScale, Dim n);
// x with the axis cut or continued by zeros to n points.
ValueId resized(Builder&, ValueId x, int64_t axis, Dim n);

}  // namespace pycandle
