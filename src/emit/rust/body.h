// forward() of a class: statements with Python's names, values that are needed once written where they are needed.
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit::rust {

struct Forward {
  std::vector<std::string> parameters;  // hidden_states: &Tensor
  std::vector<std::string> statements;  // lines, those inside a loop indented; the last is what is returned
};

Forward write_forward(const ModelTree&, const ModuleClass&);

}  // namespace pycandle::emit::rust
