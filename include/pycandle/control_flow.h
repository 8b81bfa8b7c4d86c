// Control flow that depends on values. A body is a function of tensors; it sees its arguments alone: what else it needs,
// parameters too, is passed as an operand.
//
//   auto [y] = unpack<1>(functional::cond(x.sum({}) > 0, {x}, [](const auto& v) { return Tensors{v[0] * 2}; },
//                                         [](const auto& v) { return Tensors{v[0]}; }));
#pragma once

#include <functional>
#include <vector>

#include "pycandle/tensor.h"

namespace pycandle::front {
using Tensors = std::vector<Tensor>;
using Body = std::function<Tensors(const Tensors&)>;

namespace functional {

// One of the two, by a 0-d bool; both give the same types.
PYCANDLE_API Tensors cond(const Tensor& condition, const Tensors& operands, const Body& yes, const Body& no,
                          Here = Here::current());
// The carries after `body` has run as long as `condition` says true of them.
PYCANDLE_API Tensors while_loop(const Tensors& carries, const Body& condition, const Body& body, Here = Here::current());
struct ScanOptions {
  bool reverse = false;
};
// (carries, x_t) → (carries, y_t) for each t: `values` are the first carries and then sequences, sliced on axis 0.
PYCANDLE_API Tensors scan(const Tensors& values, int64_t carries, Dim length, const Body& body, const ScanOptions& options = {},
                          Here = Here::current());

}  // namespace functional
}  // namespace pycandle::front
