#include "backends/cpu/blocks.h"

#include <algorithm>

#include "backends/cpu/chain.h"
#include "backends/cpu/kernels/kernels.h"
#include "backends/cpu/lowerings.h"

namespace pycandle::cpu {

Sizes blocked_sizes(const Sizes& image) {
  const int64_t lanes = kernels().lanes;
  return {image[0], (image[1] + lanes - 1) / lanes, image[2], image[3], lanes};
}

std::vector<std::pair<View, View>> blocked_pieces(const View& image, const View& blocked) {
  const int64_t lanes = kernels().lanes, whole = image.sizes[1] / lanes, rest = image.sizes[1] % lanes;
  std::vector<std::pair<View, View>> pieces;
  const auto add = [&](int64_t block, int64_t blocks, int64_t channels) {
    View a = image, b = blocked;
    a.sizes = b.sizes = {image.sizes[0], blocks, image.sizes[2], image.sizes[3], channels};
    a.strides = {image.strides[0], lanes * image.strides[1], image.strides[2], image.strides[3], image.strides[1]};
    a.offset += block * a.strides[1];
    b.offset += block * b.strides[1];
    pieces.emplace_back(a, b);
  };
  if (whole > 0) add(0, whole, lanes);
  if (rest > 0) add(whole, 1, rest);
  return pieces;
}

namespace {

bool is_image(const Planner& p, ValueId v) { return p.dtype(v) == DType::f32 && p.graph().type(v).rank() == 4; }

// Values that parameters and constants alone decide.
PerValue<bool> constants(const Planner& p) {
  PerValue<bool> known(p.graph().values.size(), false);
  for (const Parameter& q : p.shared().program.parameters) {
    if (q.value != kNoValue) known[q.value] = true;
  }
  for (const Node& n : p.graph().nodes) {
    const bool all = std::all_of(n.operands.begin(), n.operands.end(), [&](ValueId v) { return v == kNoValue || known[v]; });
    for (const ValueId v : n.results) known[v] = all && n.op->is_primitive && !n.op->is_random && n.regions.empty();
  }
  return known;
}

bool is_mean_of_positions(const Planner& p, size_t node) {
  Ints axes = p.call(node).integers("axes");
  std::sort(axes.begin(), axes.end());
  return axes == Ints{2, 3};
}

// Its image results have the form of its image operands.
bool keeps_the_form(const Planner& p, size_t index) {
  const Node& node = p.node(index);
  const std::string& op = node.op->name;
  if (op == "max_pool2d" || op == "avg_pool2d" || op == "batch_norm") return true;
  if (op == "concat") return p.call(index).integer("axis") == 1;
  return is_blockwise(p, index);
}

}  // namespace

BlockedKind blocked_kind(const Planner& p, size_t index) {
  if (p.node(index).op->name != "conv2d") return BlockedKind::none;
  const Call c = p.call(index);
  if (!is_image(p, c.value("x")) || c.shape("weight").size() != 4) return BlockedKind::none;
  const int64_t groups = c.integer("groups"), lanes = kernels().lanes;
  const int64_t made = p.sizes(c.value("weight"))[0], channels = p.sizes(c.value("x"))[1];
  if (element_count(p.sizes(p.node(index).results[0])) == 0) return BlockedKind::none;
  if (groups == 1) return BlockedKind::sums;
  if (groups == channels) return made == channels ? BlockedKind::depthwise : BlockedKind::none;
  return made / groups % lanes == 0 && channels / groups % lanes == 0 ? BlockedKind::sums : BlockedKind::none;
}

PerValue<bool> wanted_in_blocks(const Planner& p) {
  const PerValue<bool> known = constants(p);
  PerValue<bool> wanted(p.graph().values.size(), false);
  for (size_t index = p.graph().nodes.size(); index-- > 0;) {
    const Node& node = p.node(index);
    if (node.operands.empty() || node.operands[0] == kNoValue || !is_image(p, node.operands[0])) continue;
    const std::string& op = node.op->name;
    if (op == "conv2d") {
      if (blocked_kind(p, index) != BlockedKind::none && known[p.call(index).value("weight")])
        wanted[p.call(index).value("x")] = true;
    } else if (op == "reduce_sum") {
      if (is_mean_of_positions(p, index)) wanted[node.operands[0]] = true;
    } else if (node.results.size() == 1 && wanted[node.results[0]] && keeps_the_form(p, index)) {
      for (const ValueId v : node.operands) {
        if (v != kNoValue && is_image(p, v)) wanted[v] = true;
      }
    }
  }
  return wanted;
}

}  // namespace pycandle::cpu
