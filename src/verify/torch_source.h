// A small program as lines of Python that call PyTorch.
#pragma once

#include <optional>
#include <string>

#include "ir/op_def.h"

namespace pycandle {

// "v2 = F.gelu(v1, approximate='none')" for each node, inputs by their names in `names`; nothing when an op of it has no
// short spelling. The helpers that a line may call are those of torch_helpers().
std::optional<std::string> torch_source(const Program&, const Bindings& sizes);
std::string_view torch_helpers();

}  // namespace pycandle
