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

// fields: of the struct that the class returns; empty when it returns a tensor or a tuple.
Forward write_forward(const ModelTree&, const ModuleClass&, const std::string& output_type,
                      const std::vector<std::string>& fields);

}  // namespace pycandle::emit::rust
