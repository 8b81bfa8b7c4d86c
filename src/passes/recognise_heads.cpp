// The views around attention: splitting and merging heads, and key-value heads that are repeated for groups of queries.
// tests/passes/recognise_heads.ptir
//
//   %1 = reshape(%0) {shape = [s0, s1, 4, 8]}              →     %1 = split_heads(%0) {heads = 4}
//   %2 = transpose(%1) {permutation = [0, 2, 1, 3]}
//
//   %4 = reshape(%3) {shape = [s0, 2, 1, s1, 8]}
//   %5 = broadcast(%4) {shape = [s0, 2, 3, s1, 8], …}            attention over %3 itself, with enable_gqa
//   %6 = reshape(%5) {shape = [s0, 6, s1, 8]}              →     (%3's 2 heads serve 3 heads of the query each)
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "passes/constants.h"
#include "passes/index_domain.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

Ints identity(size_t rank) {
  Ints axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

// Does the permutation exchange the axes -3 and -2, and no others?
bool swaps_heads(const Ints& permutation) {
  if (permutation.size() < 3) return false;
  Ints swapped = identity(permutation.size());
  std::swap(swapped[swapped.size() - 3], swapped[swapped.size() - 2]);
  return permutation == swapped;
}

Shape before_last(const Shape& shape, size_t count) { return {shape.begin(), shape.end() - static_cast<std::ptrdiff_t>(count)}; }

// `split` is `whole` with its last axis as heads and their width.
bool splits_last(const Shape& whole, const Shape& split) {
  return whole.size() >= 2 && split.size() == whole.size() + 1 && before_last(split, 2) == before_last(whole, 1) &&
         split[split.size() - 2] * split.back() == whole.back();
}

// One index of an axis, which is then gone: where x[:, :, i] comes from.
struct Picked {
  ValueId x;
  size_t axis;
  int64_t index;
};
std::optional<Picked> picked(const Graph& g, ValueId v) {
  const Node* squeezed = defined_by(g, v, "reshape");
  const Node* cut = squeezed ? defined_by(g, squeezed->operands[0], "slice") : nullptr;
  if (!cut) return std::nullopt;
  const Call call = call_of(g, *cut);
  std::optional<Picked> found;
  for (size_t axis = 0; axis < call.shape("x").size(); ++axis) {
    const Dim start = call.dims("starts")[axis], stop = call.dims("stops")[axis];
    if (start == Dim(0) && stop == call.shape("x")[axis]) continue;
    if (found || !start.is_number() || stop - start != Dim(1)) return std::nullopt;
    found = Picked{call.value("x"), axis, start.number()};
  }
  if (!found) return std::nullopt;
  Shape without = call.shape("x");
  without.erase(without.begin() + static_cast<std::ptrdiff_t>(found->axis));
  return without == g.type(v).shape ? found : std::nullopt;
}

// What a key or value was repeated from: each head several times in a row.
std::optional<ValueId> repeated_from(const Graph& g, ValueId v) {
  const Node* node = defining_node(g, v);
  if (!node || g.type(v).rank() < 3) return std::nullopt;
  const Shape& shape = g.type(v).shape;
  const size_t heads = shape.size() - 3;
  const Call call = call_of(g, *node);
  const auto like_but_heads = [&](ValueId x) {
    Shape narrow = g.type(x).shape;
    if (narrow.size() != shape.size()) return false;
    narrow[heads] = shape[heads];
    return narrow == shape;
  };
  if (node->op->name == "repeat_interleave" && call.integer("axis") == static_cast<int64_t>(heads)) return call.value("x");
  if (node->op->name == "broadcast") {
    const bool one_head = call.integers("axes") == identity(shape.size()) && like_but_heads(call.value("x")) &&
                          call.shape("x")[heads] == Dim(1);
    return one_head ? std::optional(call.value("x")) : std::nullopt;
  }
  if (node->op->name != "reshape") return std::nullopt;
  const Node* broadcast = defined_by(g, call.value("x"), "broadcast");
  if (!broadcast || g.type(call.value("x")).rank() != static_cast<int64_t>(shape.size()) + 1) return std::nullopt;
  // […, heads, times, length, width]: x itself, or x with an axis of one where the repetition goes.
  const Call wide = call_of(g, *broadcast);
  const Shape& from = wide.shape("x");
  ValueId x = wide.value("x");
  Ints skipping = identity(shape.size());
  for (size_t axis = heads + 1; axis < skipping.size(); ++axis) ++skipping[axis];
  if (wide.integers("axes") != skipping) {
    const Node* unsqueezed = defined_by(g, x, "reshape");
    if (!unsqueezed || wide.integers("axes") != identity(shape.size() + 1) || from[heads + 1] != Dim(1)) return std::nullopt;
    x = unsqueezed->operands[0];
    Shape with_one = g.type(x).shape;
    if (with_one.size() != shape.size()) return std::nullopt;
    with_one.insert(with_one.begin() + static_cast<std::ptrdiff_t>(heads) + 1, Dim(1));
    if (with_one != from) return std::nullopt;
  }
  Shape repeated = g.type(x).shape;
  repeated.insert(repeated.begin() + static_cast<std::ptrdiff_t>(heads) + 1, wide.dims("shape")[heads + 1]);
  return repeated == wide.dims("shape") && like_but_heads(x) ? std::optional(x) : std::nullopt;
}

class HeadsRule {
 public:
  explicit HeadsRule(const Program& p) : uses_(use_counts(p)) {}

  std::optional<Values> operator()(Builder& b, const Node& node, const Values& operands) {
    const std::string& op = node.op->name;
    if (op == "transpose") return split(b, node, operands);
    if (op == "reshape") {
      if (auto merged = merge(b, node, operands)) return merged;
      if (auto merged = merge_batch_second(b, node, operands)) return merged;
      return split_packed(b, node, operands);
    }
    if (op == "scaled_dot_product_attention") return attention(b, node, operands);
    return std::nullopt;
  }

 private:
  std::optional<Values> split(Builder& b, const Node& node, const Values& operands) {
    const Graph& g = b.graph();
    if (!swaps_heads(Call(*node.op, g, operands, node.attributes, node.regions).integers("permutation"))) return std::nullopt;
    if (!used_once(node)) return std::nullopt;
    const Shape shape = b.shape(operands[0]);
    const Dim heads = shape[shape.size() - 2];
    // view(b, s, 3, h, d), unbind(2), transpose(1, 2): a part of the last axis, then its heads.
    if (const auto part = picked(g, operands[0])) {
      const Node* view = defined_by(g, part->x, "reshape");
      const Shape& packed = g.type(part->x).shape;
      if (!view) return std::nullopt;
      if (part->axis + 3 == packed.size()) return heads_of_part(b, view->operands[0], packed, part->index);
      if (part->axis + 2 == packed.size()) return part_of_heads(b, view->operands[0], packed, part->index, node.origin.call);
      return std::nullopt;
    }
    const Node* view = defined_by(g, operands[0], "reshape");
    if (!view || !splits_last(g.type(view->operands[0]).shape, shape)) return std::nullopt;
    return Values{b.create("split_heads", {view->operands[0]}, {{"heads", heads}})};
  }

  // view(b, s, 3, h, d), permute(2, 0, 3, 1, 4), unbind(0)
  static std::optional<Values> split_packed(Builder& b, const Node& node, const Values& operands) {
    const Graph& g = b.graph();
    const Node* cut = defined_by(g, operands[0], "slice");
    if (!cut) return std::nullopt;
    const Node* permuted = defined_by(g, cut->operands[0], "transpose");
    const Node* view = permuted ? defined_by(g, permuted->operands[0], "reshape") : nullptr;
    if (!view) return std::nullopt;
    const Shape packed = g.type(permuted->operands[0]).shape;  // […, length, parts, heads, width]
    if (packed.size() < 4) return std::nullopt;
    const int64_t parts = static_cast<int64_t>(packed.size()) - 3;
    Ints expected{parts};
    for (int64_t axis = 0; axis < parts - 1; ++axis) expected.push_back(axis);
    for (const int64_t axis : {parts + 1, parts - 1, parts + 2}) expected.push_back(axis);
    if (call_of(g, *permuted).integers("permutation") != expected) return std::nullopt;
    const Call call = call_of(g, *cut);
    const Shape& whole = call.shape("x");
    const Shape target = Call(*node.op, g, operands, node.attributes, node.regions).dims("shape");
    const Dim index = call.dims("starts")[0];
    if (!index.is_number() || call.dims("stops")[0] - index != Dim(1) || target != Shape(whole.begin() + 1, whole.end())) {
      return std::nullopt;
    }
    for (size_t axis = 1; axis < whole.size(); ++axis) {
      if (call.dims("starts")[axis] != Dim(0) || call.dims("stops")[axis] != whole[axis]) return std::nullopt;
    }
    return heads_of_part(b, view->operands[0], packed, index.number());
  }

  // `packed` is x with its last axis as parts, heads and width.
  static std::optional<Values> heads_of_part(Builder& b, ValueId x, const Shape& packed, int64_t index) {
    const Shape whole = b.shape(x);
    const size_t n = packed.size();
    const Dim width = packed[n - 2] * packed[n - 1];
    const bool fits = whole.size() + 2 == n && before_last(whole, 1) == before_last(packed, 3) &&
                      packed[n - 3] * width == whole.back();
    if (!fits) return std::nullopt;
    const ValueId part = b.slice(x, -1, Dim(index) * width, Dim(index + 1) * width);
    return Values{b.create("split_heads", {part}, {{"heads", packed[n - 2]}})};
  }

  // view(b, s, h, 3, d): the heads of x first, then a part of their width.
  std::optional<Values> part_of_heads(Builder& b, ValueId x, const Shape& packed, int64_t index, int32_t call) {
    const size_t n = packed.size();
    const Shape split = Shape(packed.begin(), packed.end() - 2);  // […, length, heads]
    Shape view = split;
    view.push_back(packed[n - 2] * packed[n - 1]);
    if (!splits_last(b.shape(x), view)) return std::nullopt;
    ValueId& heads = heads_of_.emplace(std::tuple{x, packed[n - 3].text(), call}, kNoValue).first->second;
    if (heads == kNoValue) heads = b.create("split_heads", {x}, {{"heads", packed[n - 3]}});
    return Values{b.slice(heads, -1, Dim(index) * packed[n - 1], Dim(index + 1) * packed[n - 1])};
  }

  std::optional<Values> merge(Builder& b, const Node& node, const Values& operands) const {
    const Graph& g = b.graph();
    const Node* swapped = defined_by(g, operands[0], "transpose");
    if (!swapped || !swaps_heads(call_of(g, *swapped).integers("permutation")) || !used_once(node)) return std::nullopt;
    const Shape target = Call(*node.op, g, operands, node.attributes, node.regions).dims("shape");
    if (!splits_last(target, b.shape(operands[0]))) return std::nullopt;
    return Values{b.create("merge_heads", {swapped->operands[0]})};
  }

  // nn.MultiheadAttention has the batch second: [batch, heads, length, width] → [length, batch, heads * width], perhaps flat.
  std::optional<Values> merge_batch_second(Builder& b, const Node& node, const Values& operands) const {
    const Graph& g = b.graph();
    const Node* moved = defined_by(g, operands[0], "transpose");
    if (!moved || call_of(g, *moved).integers("permutation") != Ints{2, 0, 1, 3} || !used_once(node)) return std::nullopt;
    const Shape &from = g.type(operands[0]).shape,
                target = Call(*node.op, g, operands, node.attributes, node.regions).dims("shape");
    const Shape merged{from[0], from[1], from[2] * from[3]}, flat{from[0] * from[1], from[2] * from[3]};
    if (target != merged && target != flat) return std::nullopt;
    const ValueId heads = b.create("merge_heads", {moved->operands[0]});
    return Values{b.reshape(b.transpose(heads, {1, 0, 2}), target)};
  }

  std::optional<Values> attention(Builder& b, const Node& node, const Values& operands) {
    Values direct = operands;
    for (const size_t i : {0, 1, 2}) {
      const ValueId v = heads_by_proof(b, operands[i], node.origin.call);
      if (v != kNoValue) direct[i] = v;
    }
    if (auto narrow = grouped(b, node, direct)) return narrow;
    if (direct == operands) return std::nullopt;
    return Values{b.create(node.op->name, direct, node.attributes)};
  }

  // However x is viewed and permuted: when the element [b, h, i, d] is x[b, i, h * width + d + first], it is the heads of a
  // part of x; when it is x[i, b, …], of x with the batch first. kNoValue when it is neither.
  ValueId heads_by_proof(Builder& b, ValueId v, int32_t call) {
    const Shape shape = b.shape(v);
    if (shape.size() != 4) return kNoValue;
    if (!space_) {
      space_.emplace(b.ranges());
      evaluator_.emplace(b.graph(), *space_);
    }
    std::vector<Dim> at;
    at.reserve(4);
    for (size_t axis = 0; axis < 4; ++axis) at.push_back(space_->axis(axis, shape[axis]));
    const ElementPtr e = evaluator_->element(v, at);
    if (e->kind != Element::Kind::read || e->value == v || e->indices.size() != 3) return kNoValue;
    const auto first = (e->indices[2] - at[1] * shape[3] - at[3]).maybe_number();
    const bool batch_first = e->indices[0] == at[0] && e->indices[1] == at[2];
    const bool batch_second = e->indices[0] == at[2] && e->indices[1] == at[0];
    const Shape& from = b.shape(e->value);
    const Dim width = shape[1] * shape[3];
    const bool whole = first && (batch_first || batch_second) && from[batch_first ? 0 : 1] == shape[0] &&
                       from[batch_first ? 1 : 0] == shape[2] && at_most(Dim(*first) + width, from[2]) == Tri::yes;
    if (!whole) return kNoValue;
    ValueId x = e->value;
    if (batch_second) {
      ValueId& moved = batch_first_.emplace(std::pair{x, call}, kNoValue).first->second;
      if (moved == kNoValue) moved = b.transpose(x, {1, 0, 2});
      x = moved;
    }
    return b.create("split_heads", {b.slice(x, 2, *first, Dim(*first) + width)}, {{"heads", shape[1]}});
  }

  static std::optional<Values> grouped(Builder& b, const Node& node, const Values& operands) {
    const Graph& g = b.graph();
    const auto key = repeated_from(g, operands[1]), value = repeated_from(g, operands[2]);
    if (!key && !value) return std::nullopt;
    Values narrow = operands;
    if (key) narrow[1] = *key;
    if (value) narrow[2] = *value;
    const Shape& query = g.type(operands[0]).shape;
    for (const ValueId v : {narrow[1], narrow[2]}) {
      const Shape& shape = g.type(v).shape;
      const bool fits = shape.size() == query.size() && before_last(shape, 3) == before_last(query, 3) &&
                        equal(mod(query[query.size() - 3], shape[shape.size() - 3]), Dim(0)) == Tri::yes;
      if (!fits) return std::nullopt;
    }
    Attributes attributes = node.attributes;
    for (auto& [name, attribute] : attributes) {
      if (name == "enable_gqa") attribute = true;
    }
    return Values{b.create(node.op->name, narrow, attributes)};
  }

  bool used_once(const Node& node) const { return uses_[node.operands[0]] == 1; }

  PerValue<int32_t> uses_;
  std::optional<IndexSpace> space_;
  std::optional<IndexEvaluator> evaluator_;
  std::map<std::pair<ValueId, int32_t>, ValueId> batch_first_;             // x, module call → x with its first axes exchanged
  std::map<std::tuple<ValueId, std::string, int32_t>, ValueId> heads_of_;  // x, heads, module call → what parts are taken of
};

}  // namespace

Program recognise_heads(Program p, const OpTable& table) {
  HeadsRule rule(p);
  return rewrite_outside_regions(std::move(p), table,
                                 [&](Builder& b, const Node& node, const Values& operands) { return rule(b, node, operands); });
}

}  // namespace pycandle
