// forward() of a class: statements with Python's names, values that are needed once written where they are needed.
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit::cpp {

struct Forward {
  std::vector<std::string> parameters;  // const Tensor& hidden_states, Tensor x; const Tensor& /*unused*/
  std::vector<std::string> statements;  // each one line, or a loop of several that are already indented
};

// reserved: names that stand around it.
Forward write_forward(const ModelTree&, const ModuleClass&, std::vector<std::string> reserved = {});

}  // namespace pycandle::emit::cpp
