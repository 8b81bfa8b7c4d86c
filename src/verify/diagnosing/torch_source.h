// A small program as lines of Python that call PyTorch.
#pragma once

#include <string>

#include "ir/op_def.h"

namespace pycandle {

// "v2 = F.gelu(v1, approximate='none')" for each node, inputs by their names in `names`. The helpers that a line may call
// are those of torch_helpers().
struct TorchSource {
  std::string text;
  std::string unspelled;  // an op without a short spelling: there is no text then
};
TorchSource torch_source(const Program&, const Bindings& sizes);
std::string_view torch_helpers();

}  // namespace pycandle
