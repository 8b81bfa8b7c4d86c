// An op that people write out (snake, attention by hand) is one node of the program, however a model spells it. In f16 and bf16
// each spelling rounds elsewhere, so PyTorch's value is that of one of them.
#pragma once

#include <optional>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

// The program in every other spelling of its ops that round to this dtype on the way. Nothing: there are too many to try.
std::optional<std::vector<Program>> other_spellings(const Program&, const OpTable&, DType);

}  // namespace pycandle
