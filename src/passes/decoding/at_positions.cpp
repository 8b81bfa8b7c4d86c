#include "passes/decoding/at_positions.h"

#include <algorithm>

#include "ops/core/alignment.h"
#include "passes/constants.h"
#include "passes/decoding/rules.h"

namespace pycandle::decoding {

bool AtPositions::has_one_first(ValueId v) const {
  const Shape& shape = d.g_.type(v).shape;
  return !shape.empty() && shape[0] == Dim(1);
}

Shape AtPositions::shape(ValueId v, const Need& need) const {
  Shape shape = d.axes_.shape(v, need);
  if (has_one_first(v))
    shape[0] = d.axes_.batch();
  else
    shape.insert(shape.begin(), d.axes_.batch());
  return shape;
}

std::optional<ValueId> AtPositions::rows(ValueId v, const Need& need) {
  const auto found = made(v, need);
  if (!found) return std::nullopt;
  Shape with_batch = d.axes_.shape(v, need);
  with_batch.insert(with_batch.begin(), d.axes_.batch());
  return d.reshaped(*found, with_batch);
}

std::optional<ValueId> AtPositions::made(ValueId v, const Need& need) {
  const auto known = d.at_positions_.find({v, need});
  if (known != d.at_positions_.end()) return known->second;
  const Node* node = defining_node(d.g_, v);
  if (!node || node->results.size() != 1 || !node->regions.empty()) return std::nullopt;
  const Origin origin = b.origin;
  b.origin = node->origin;
  const auto built = computed(*node, v, need);
  b.origin = origin;
  if (built) d.at_positions_.emplace(std::pair{v, need}, *built);
  return built;
}

std::optional<ValueId> AtPositions::computed(const Node& node, ValueId v, const Need& need) {
  const std::string& op = node.op->name;
  if (op == "iota") return d.g_.type(v).dtype == DType::i64 ? std::optional(positions(node)) : std::nullopt;
  if (op == "broadcast") return broadcast(node, v, need);
  // Ops whose operand and result have the sequence in other axes are followed where all of it are new tokens.
  if (!all_are(need, Rows::fresh)) return op == "reshape" ? std::nullopt : elementwise(node, v, need);
  if (op == "reshape") {
    const auto x = made(node.operands[0], fresh(node.operands[0]));
    return x ? std::optional(d.reshaped(*x, shape(v, need))) : std::nullopt;
  }
  if (op == "transpose") {
    const auto x = rows(node.operands[0], fresh(node.operands[0]));
    Ints order{0};
    for (const int64_t axis : call_of(d.g_, node).integers("permutation")) order.push_back(axis + 1);
    return x ? std::optional(b.reshape(b.transpose(*x, order), shape(v, need))) : std::nullopt;
  }
  if (op == "embedding" && !d.axes_.has_sequence(node.operands[0])) {
    const auto indices = made(node.operands[1], fresh(node.operands[1]));
    if (!indices) return std::nullopt;
    Rules{d, d.step_, node, v, need, call_of(d.g_, node)}.note_longest();
    const ValueId weight = d.value(d.step_, node.operands[0], none(d.g_.type(node.operands[0]).rank()));
    return b.create(op, {weight, *indices}, node.attributes);
  }
  if (op == "dot_general") return product(node, v);
  if (op == "concat") return joined(node, v, need);
  return elementwise(node, v, need);
}

ValueId AtPositions::positions(const Node& iota) {
  const Dim count = call_of(d.g_, iota).dim("size");
  const ValueId places = b.create("arange", {},
                                  {{"start", Dim(0)}, {"stop", count}, {"step", int64_t{1}}, {"dtype", DType::i64}});
  return b.add(b.unsqueeze(d.lengths_, 1), b.unsqueeze(places, 0));
}

std::optional<ValueId> AtPositions::alike(ValueId v, const Need& need) {
  const Node* node = defining_node(d.g_, v);
  if (!node || d.axes_.of_tokens(v) || d.axes_.of_inputs(v) || d.axes_.of_length(v)) return std::nullopt;
  if (node->op->name == "constant") return b.full(call_of(d.g_, *node).scalar("value"), d.g_.type(v).dtype, shape(v, need));
  if (node->op->name != "broadcast" || d.axes_.has_sequence(node->operands[0])) return std::nullopt;
  const ValueId x = d.value(d.step_, node->operands[0], none(d.g_.type(node->operands[0]).rank()));
  Ints axes;
  for (const int64_t axis : call_of(d.g_, *node).integers("axes")) axes.push_back(has_one_first(v) ? axis : axis + 1);
  return b.broadcast(x, shape(v, need), axes);
}

std::optional<ValueId> AtPositions::elementwise(const Node& node, ValueId v, const Need& need) {
  const Shape& result = d.g_.type(v).shape;
  const auto alignment = alignment_of(call_of(d.g_, node), node.operands, result);
  if (!alignment) return std::nullopt;
  for (size_t axis = 0; axis < result.size(); ++axis) {
    if (!alignment->is_free[axis]) return std::nullopt;
  }
  Values operands;
  for (const ValueId from : node.operands) {
    if (from == kNoValue || d.g_.type(from).shape != result) return std::nullopt;
    const auto x = d.differs_by_sequence(from, need) ? made(from, need) : alike(from, need);
    if (!x) return std::nullopt;
    operands.push_back(*x);
  }
  return b.create(node.op->name, operands, node.attributes);
}

std::optional<ValueId> AtPositions::broadcast(const Node& node, ValueId v, const Need& need) {
  const ValueId from = node.operands[0];
  const Shape& before = d.g_.type(from).shape;
  const Ints to = call_of(d.g_, node).integers("axes");
  Need own = none(d.g_.type(from).rank());
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (before[axis] == d.g_.type(v).shape[to[axis]]) own[axis] = need[to[axis]];
  }
  if (!d.differs_by_sequence(from, own)) return any_is(own, Rows::fresh) ? std::nullopt : alike(v, need);
  const auto x = made(from, own);
  if (!x) return std::nullopt;
  Ints axes{0};
  for (size_t axis = has_one_first(from) ? 1 : 0; axis < to.size(); ++axis) {
    const int64_t target = has_one_first(v) ? to[axis] : to[axis] + 1;
    if (target == 0) return std::nullopt;
    axes.push_back(target);
  }
  return b.broadcast(*x, shape(v, need), axes);
}

// A product with a batch axis of 1 on both sides: the batch takes its place.
std::optional<ValueId> AtPositions::product(const Node& node, ValueId v) {
  const Call call = call_of(d.g_, node);
  if (call.integers("batch_left").empty() || call.integers("batch_left")[0] != 0 || call.integers("batch_right")[0] != 0)
    return std::nullopt;
  Values operands;
  for (const ValueId from : node.operands) {
    if (!has_one_first(from)) return std::nullopt;
    if (d.differs_by_sequence(from, fresh(from))) {
      const auto x = made(from, fresh(from));
      if (!x) return std::nullopt;
      operands.push_back(*x);
    } else if (!d.axes_.has_sequence(from)) {
      const ValueId plain = d.value(d.step_, from, none(d.g_.type(from).rank()));
      operands.push_back(b.broadcast_to(plain, shape(from, none(d.g_.type(from).rank()))));
    } else {
      return std::nullopt;
    }
  }
  const ValueId made = b.create("dot_general", operands, node.attributes);
  return b.shape(made) == shape(v, fresh(v)) ? std::optional(made) : std::nullopt;
}

std::optional<ValueId> AtPositions::joined(const Node& node, ValueId v, const Need& need) {
  const int64_t axis = call_of(d.g_, node).integer("axis");
  if (!need[axis].empty() || (axis == 0 && !has_one_first(node.operands[0]))) return std::nullopt;
  Values parts;
  for (const ValueId from : node.operands) {
    const auto x = has_one_first(from) == has_one_first(v) ? made(from, fresh(from)) : std::nullopt;
    if (!x) return std::nullopt;
    parts.push_back(*x);
  }
  return b.create("concat", parts, {{"axis", has_one_first(v) ? axis : axis + 1}});
}

}  // namespace pycandle::decoding
