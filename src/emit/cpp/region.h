// A region of cond, while_loop or scan as a function of its own:
//
//   const auto yes = [](const Tensors& v) {
//     const Tensor& x = v[0];
//     return Tensors{functional::relu(x)};
//   };
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit::cpp {

// The statements, those inside already indented; `inputs` are the names of what it is given.
std::vector<std::string> write_region(const Program& around, const Graph& region, const std::string& name,
                                      const std::vector<std::string>& inputs);

}  // namespace pycandle::emit::cpp
