// What the ops of this folder share.
#pragma once

#include <algorithm>
#include <string>

#include "ir/mistakes.h"
#include "ops/core/aten_call.h"
#include "ops/core/evaluate.h"

namespace pycandle {

// torch takes a 0-d tensor for one of one element wherever it takes an axis.
inline int64_t axis_argument(AtenCall& c, const char* name, int64_t rank) {
  return c.b.normal_axis(c.integer(name), std::max<int64_t>(rank, 1));
}

// With at least that many axes, as torch.atleast_1d, _2d and _3d put them.
inline ValueId with_axes(Builder& b, ValueId x, int64_t rank) {
  while (b.rank(x) < rank) x = b.unsqueeze(x, b.rank(x) == 2 ? 2 : 0);
  return x;
}

[[noreturn]] inline void wrong_sizes(const Evaluation& ev, const std::string& what, const std::string& expected,
                                     const std::string& found) {
  throw Error(ErrorCode::bad_input, what).expected(expected).found(found).op(ev.node().op->name);
}

}  // namespace pycandle
