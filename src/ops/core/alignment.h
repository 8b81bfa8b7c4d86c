// Along which axes a call treats every place alike: what it computes at one place along such an axis of its results comes
// from that place of its operands alone, however many places there are. A linear layer runs along all axes of x but the
// last, a softmax along all but its own.
#pragma once

#include <optional>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

struct Alignment {
  static constexpr int64_t kAbsent = -1;  // the operand has no such axis: all of it counts at every place
  std::vector<bool> is_free;              // per axis of the results (of all of them): is every place treated alike?
  std::vector<Ints> axes;                 // per operand, per axis of the results: the operand's axis that runs along it
};

// Nothing for an op of which this is not known; a functional can be decomposed then. Reshapes are not here: their axes
// are factors of one another.
std::optional<Alignment> alignment_of(const Call&, const Values& operands, const Shape& result);

}  // namespace pycandle
