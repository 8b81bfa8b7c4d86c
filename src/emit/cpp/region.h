// cond, while_loop and scan: a function for each region, then the call.
//
//   const auto yes = [](const Tensors& v) {
//     const Tensor& x = v[0];
//     return Tensors{functional::relu(x)};
//   };
//   … functional::cond(x.sum({}) > 0.0, {x}, yes, no) …
#pragma once

#include <string>
#include <vector>

#include "emit/cpp/expression.h"
#include "emit/names.h"
#include "emit/value_names.h"

namespace pycandle::emit::cpp {

struct ControlFlow {
  std::vector<std::string> functions;  // lines, those inside already indented
  std::string call;                    // gives Tensors
};

// The names of the functions are taken from `scope`.
ControlFlow write_control_flow(const Program&, const Node&, const Surroundings&, const ValueNames&, Scope& scope);

}  // namespace pycandle::emit::cpp
