// Ops that move data: most only change the view.
#include "backends/cpu/convolution.h"
#include "backends/cpu/lowerings.h"

namespace pycandle::cpu {
namespace {

bool lower_reshape(Planner& p, size_t n) {
  const Node& node = p.node(n);
  const Sizes sizes = p.sizes(node.results[0]);
  const View x = p.view(node.operands[0]);
  if (x.count() != element_count(sizes)) return false;  // here and below: the evaluator says what is wrong
  const auto y = reshaped(x, sizes);
  p.define(node.results[0], y ? *y : *reshaped(p.dense(x), sizes));
  return true;
}

bool lower_transpose(Planner& p, size_t n) {
  const Node& node = p.node(n);
  p.define(node.results[0], transposed(p.view(node.operands[0]), p.call(n).integers("permutation")));
  return true;
}

bool lower_broadcast(Planner& p, size_t n) {
  const Node& node = p.node(n);
  const View x = p.view(node.operands[0]);
  const Sizes sizes = p.sizes(node.results[0]);
  const Ints& axes = p.call(n).integers("axes");
  for (size_t a = 0; a < axes.size(); ++a) {
    if (x.sizes[a] != 1 && x.sizes[a] != sizes[axes[a]]) return false;
  }
  p.define(node.results[0], broadcasted(x, sizes, axes));
  return true;
}

bool lower_slice(Planner& p, size_t n) {
  const Node& node = p.node(n);
  const Call c = p.call(n);
  const Sizes starts = p.sizes(c.dims("starts")), stops = p.sizes(c.dims("stops"));
  const View x = p.view(node.operands[0]);
  for (size_t a = 0; a < starts.size(); ++a) {
    if (starts[a] < 0 || starts[a] > stops[a] || stops[a] > x.sizes[a]) return false;
  }
  p.define(node.results[0], sliced(x, starts, stops, c.integers("steps")));
  return true;
}

bool lower_reverse(Planner& p, size_t n) {
  const Node& node = p.node(n);
  p.define(node.results[0], reversed(p.view(node.operands[0]), p.call(n).integers("axes")));
  return true;
}

bool lower_concat(Planner& p, size_t n) {
  const Node& node = p.node(n);
  const auto axis = static_cast<size_t>(p.call(n).integer("axis"));
  const Sizes sizes = p.sizes(node.results[0]);
  if (concat_blocked(p, n)) return true;
  for (const ValueId v : node.operands) {
    Sizes own = p.view(v).sizes;
    own[axis] = sizes[axis];
    if (own != sizes) return false;
  }
  const View y = p.result(node.results[0]);
  int64_t at = 0;
  for (const ValueId v : node.operands) {
    const View& x = p.view(v);
    Sizes starts(y.sizes.size(), 0), stops = y.sizes;
    starts[axis] = at;
    stops[axis] = at + x.sizes[axis];
    p.copy(x, sliced(y, starts, stops, std::vector<int64_t>(y.sizes.size(), 1)));
    at = stops[axis];
  }
  p.define(node.results[0], y);
  return true;
}

}  // namespace

std::vector<Lowering> movement_lowerings() {
  return {{"reshape", nullptr, lower_reshape, true},     {"transpose", nullptr, lower_transpose, true},
          {"broadcast", nullptr, lower_broadcast, true}, {"slice", nullptr, lower_slice, true},
          {"reverse", nullptr, lower_reverse, true},     {"concat", nullptr, lower_concat}};
}

}  // namespace pycandle::cpu
