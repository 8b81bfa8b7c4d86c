// Rows that were selected: nms, batched_nms and nonzero. Rounding may decide whether two boxes overlap too much, which of two
// is better, and whether a number is above a threshold; what is selected otherwise for such a reason is no error.
#pragma once

#include "verify/judging/decisions.h"

namespace pycandle {

// Nothing when the slice's value is no such selection. The sizes of `golden` and `ours` may differ.
std::optional<Decisions> look_at_selections(const Slice&, const Trials&, const std::vector<Array>& inputs, const Array& golden,
                                            const Array& ours);

}  // namespace pycandle
