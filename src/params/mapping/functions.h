// What a rule may do with tensors of a checkpoint, and how it is done.
#pragma once

#include <string>
#include <vector>

#include "params/checkpoints/checkpoint.h"
#include "params/mapping/rules.h"

namespace pycandle {

// What becomes of a tensor or a parameter; each has exactly one fate.
enum class Fate {
  used,        // as it is
  cast,        // to another dtype
  transposed,
  permuted,
  reshaped,
  split,       // a part of one tensor
  joined,      // several tensors
  computed,    // weight norm, LoRA
  tied,        // another name of one that is there
  carried,     // from the recording itself: no checkpoint holds it
  unused,
  missing,
  mismatched,
};
inline constexpr int kFateCount = 13;
const char* name_of(Fate);  // "used as is", "missing"

// Empty when the call is right; else what is wrong with it: an unknown function, too few tensors.
std::string problem_with(const SourceExpr& call);
// What the expression does, as one fate; `used` for a tensor alone.
Fate fate_of(const SourceExpr&);

// Dtype and shape of what evaluate() would give, without reading anything. Names that are not there and shapes that do
// not fit are bad_input.
struct SourceType {
  DType dtype = DType::f32;
  Sizes shape;
};
SourceType type_of(const SourceExpr&, const Checkpoint&);
// A view of the checkpoint's own bytes where that is possible, else computed in memory.
StoredTensor evaluate(const SourceExpr&, const Checkpoint&);

}  // namespace pycandle
