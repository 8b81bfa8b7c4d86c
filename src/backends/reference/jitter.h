// How much correct implementations of a primitive may differ, and results moved by that much at random.
#pragma once

#include <optional>

#include "backends/streams.h"
#include "ir/evaluation.h"

namespace pycandle {

// The size of the terms that an op sums, element by element; nothing for an op that does not sum. For a linear op it is
// the op on absolute values (sub is add there), for an fft the RMS of its result, or of elements that one of its steps adds:
// rounding errors of any order of summation are at most a few u times this.
std::optional<Array> scale_of_terms(const Node&, const Graph&, const std::vector<Array>& operands, const Array& result,
                                    const Bindings&);

// The number of terms in the longest sum of a linear op; 1 for any other.
double count_of_terms(const Node&, const Graph&, const std::vector<Array>& operands, const Bindings&);

// How much more than one rounding a sum may err.
struct Growth {
  double of_sums = 1;   // where terms do not cancel, and partial sums are as large as the result
  double of_terms = 1;  // where they do
};

// y moved by up to u(dtype) * |y|, and by up to u * (of_terms * terms + (of_sums - 1) * |y|² / terms) at the precision sums are
// computed in (f32 for f16 and bf16); `terms` is the scale of terms. NaN, infinities and integers stay; nothing finite becomes
// infinite.
Array jittered(const Array& y, const Array* scale, uint64_t stream, Growth = {});
// The same by up to another u, whatever the dtype of y.
Array jittered_by(double u, const Array& y, const Array* scale, uint64_t stream, Growth = {});

}  // namespace pycandle
