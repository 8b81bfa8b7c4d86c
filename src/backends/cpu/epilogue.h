// What follows a product and can be done before its result is stored: an activation, a product with another tensor, a
// sum with another tensor; or a sum and then an activation.
#pragma once

#include <vector>

#include "backends/cpu/kernel_step.h"

namespace pycandle::cpu {

struct FusedEpilogue {
  Epilogue epilogue;
  std::vector<Bound> reads;    // of Epilogue's pointers; offsets within Epilogue
  ValueId value = kNoValue;    // what the product gives in the end
  BufferId residual = kNoBuffer;  // a buffer that the result may take over
};

// Follows the only users of `value`, which has `rows` × `columns` elements, as far as they can be done in the epilogue,
// and marks them done.
FusedEpilogue fuse_epilogue(Planner&, ValueId value, int64_t rows, int64_t columns);
// The same for the image `value` in blocks of channels: the operands are blocks too.
FusedEpilogue fuse_blocked_epilogue(Planner&, ValueId value);

// The view as a matrix whose rows are contiguous; nothing when it is not one.
std::optional<View> as_matrix(const View&, int64_t rows, int64_t columns);

}  // namespace pycandle::cpu
