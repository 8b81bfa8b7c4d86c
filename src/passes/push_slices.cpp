// Computes only what is looked at: where every user of a value takes the same slice of it, the slice moves in front of the
// node that computes the value, through products, norms and attention up to where the rest is needed. A model that returns
// the logits of the last token runs its last layer for that token alone.   tests/passes/push_slices.ptir
//
//   %2 = linear(%0, %1, _): f32[s0, s1, 8]                    %2 = slice(%0) {starts = [0, s1 - 1, 0], …}: f32[s0, 1, 8]
//   %3 = slice(%2) {starts = [0, s1 - 1, 0], …}       →       %3 = linear(%2, %1, _): f32[s0, 1, 8]
//
// Taps change nothing: one on a value of which only the slice is left is inside what took the slice.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "passes/constants.h"
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

// x[starts : stops : steps] on every axis.
struct Cut {
  Dims starts, stops;
  Ints steps;

  static Cut whole(const Shape& shape) { return {Dims(shape.size(), Dim(0)), shape, Ints(shape.size(), 1)}; }
  static Cut of(const Call& slice) { return {slice.dims("starts"), slice.dims("stops"), slice.integers("steps")}; }
  bool is_whole(const Shape& shape, size_t axis) const {
    return starts[axis] == Dim(0) && stops[axis] == shape[axis] && steps[axis] == 1;
  }
  bool is_whole(const Shape& shape) const {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (!is_whole(shape, axis)) return false;
    }
    return true;
  }
  Dim size(size_t axis) const { return ceildiv(stops[axis] - starts[axis], Dim(steps[axis])); }
  void take(size_t axis, const Cut& from, size_t its_axis) {
    starts[axis] = from.starts[its_axis];
    stops[axis] = from.stops[its_axis];
    steps[axis] = from.steps[its_axis];
  }
  Attributes attributes() const { return {{"starts", starts}, {"stops", stops}, {"steps", steps}}; }
  friend bool operator==(const Cut&, const Cut&) = default;
};

// What a node needs to compute a cut of its result: a cut of each operand (nothing: all of it), and other attributes.
struct Pushed {
  std::vector<std::optional<Cut>> operands;
  Attributes attributes;
};

void set(Attributes& attributes, std::string_view name, Attribute value) {
  for (auto& [key, attribute] : attributes) {
    if (key != name) continue;
    attribute = std::move(value);
    return;
  }
}

using Push = std::optional<Pushed> (*)(const Call&, const Shape& result, const Cut&, Pushed);

bool is_whole_from(const Cut& cut, const Shape& shape, size_t first) {
  for (size_t axis = first; axis < shape.size(); ++axis) {
    if (!cut.is_whole(shape, axis)) return false;
  }
  return true;
}

// Every operand of the shape of the result, element by element.
std::optional<Pushed> push_elementwise(const Call&, const Shape&, const Cut& cut, Pushed p) {
  for (auto& operand : p.operands) operand = cut;
  return p;
}

// The rows of x, whose last axes are needed whole.
std::optional<Pushed> push_rows(const Cut& cut, const Shape& result, size_t needed, Pushed p) {
  if (needed > result.size() || !is_whole_from(cut, result, result.size() - needed)) return std::nullopt;
  p.operands[0] = cut;
  return p;
}

std::optional<Pushed> push_linear(const Call& c, const Shape& result, const Cut& cut, Pushed p) {
  auto rows = push_rows(cut, result, 1, std::move(p));
  if (rows) rows->operands[0]->stops.back() = c.shape("x").back();
  return rows;
}

std::optional<Pushed> push_norm(const Call& c, const Shape& result, const Cut& cut, Pushed p) {
  return push_rows(cut, result, c.dims("normalized_shape").size(), std::move(p));
}

std::optional<Pushed> push_softmax(const Call& c, const Shape& result, const Cut& cut, Pushed p) {
  if (result.empty()) return std::nullopt;
  const auto rank = static_cast<int64_t>(result.size());
  if (!cut.is_whole(result, static_cast<size_t>((c.integer("dim") + rank) % rank))) return std::nullopt;
  p.operands[0] = cut;
  return p;
}

std::optional<Pushed> push_transpose(const Call& c, const Shape&, const Cut& cut, Pushed p) {
  Cut of_x = Cut::whole(c.shape("x"));
  const Ints& permutation = c.integers("permutation");
  for (size_t axis = 0; axis < permutation.size(); ++axis) of_x.take(static_cast<size_t>(permutation[axis]), cut, axis);
  p.operands[0] = of_x;
  return p;
}

// Axes before and behind those that the reshape changes.
std::optional<Pushed> push_reshape(const Call& c, const Shape& result, const Cut& cut, Pushed p) {
  const Shape& from = c.shape("x");
  const size_t shorter = std::min(from.size(), result.size());
  size_t before = 0, behind = 0;
  while (before < shorter && from[before] == result[before]) ++before;
  while (before + behind < shorter && from[from.size() - 1 - behind] == result[result.size() - 1 - behind]) ++behind;
  Cut of_x = Cut::whole(from);
  Dims shape = result;
  for (size_t axis = 0; axis < result.size(); ++axis) {
    if (cut.is_whole(result, axis)) continue;
    if (axis >= before && axis + behind < result.size()) return std::nullopt;
    of_x.take(axis < before ? axis : from.size() - (result.size() - axis), cut, axis);
    shape[axis] = cut.size(axis);
  }
  p.operands[0] = of_x;
  set(p.attributes, "shape", shape);
  return p;
}

std::optional<Pushed> push_broadcast(const Call& c, const Shape& result, const Cut& cut, Pushed p) {
  const Shape& from = c.shape("x");
  const Ints& axes = c.integers("axes");
  Cut of_x = Cut::whole(from);
  for (size_t axis = 0; axis < axes.size(); ++axis) {
    const auto to = static_cast<size_t>(axes[axis]);
    if (cut.is_whole(result, to) || (from[axis] == Dim(1) && result[to] != Dim(1))) continue;
    if (from[axis] != result[to]) return std::nullopt;
    of_x.take(axis, cut, to);
  }
  Dims shape = result;
  for (size_t axis = 0; axis < result.size(); ++axis) shape[axis] = cut.size(axis);
  p.operands[0] = of_x;
  set(p.attributes, "shape", shape);
  return p;
}

std::optional<Pushed> push_concat(const Call& c, const Shape& result, const Cut& cut, Pushed p) {
  const auto joined = static_cast<size_t>(c.integer("axis"));
  if (!cut.is_whole(result, joined)) return std::nullopt;
  const Values xs = c.values("xs");
  for (size_t i = 0; i < xs.size(); ++i) {
    p.operands[i] = cut;
    p.operands[i]->stops[joined] = c.type(xs[i]).shape[joined];
  }
  return p;
}

std::optional<Pushed> push_dot_general(const Call& c, const Shape& result, const Cut& cut, Pushed p) {
  const Ints *batch[2] = {&c.integers("batch_left"), &c.integers("batch_right")},
             *contract[2] = {&c.integers("contract_left"), &c.integers("contract_right")};
  const Shape* shapes[2] = {&c.shape("left"), &c.shape("right")};
  size_t rest = batch[0]->size();  // the axis of the result that the next one that is left becomes
  for (size_t side = 0; side < 2; ++side) {
    Cut own = Cut::whole(*shapes[side]);
    for (size_t i = 0; i < batch[side]->size(); ++i) own.take(static_cast<size_t>((*batch[side])[i]), cut, i);
    for (size_t axis = 0; axis < shapes[side]->size(); ++axis) {
      const auto is_among = [&](const Ints& axes) {
        return std::find(axes.begin(), axes.end(), static_cast<int64_t>(axis)) != axes.end();
      };
      if (!is_among(*batch[side]) && !is_among(*contract[side])) own.take(axis, cut, rest++);
    }
    p.operands[side] = own;
  }
  return rest == result.size() ? std::optional(std::move(p)) : std::nullopt;
}

// Some of the queries, which stand further on.
std::optional<Pushed> push_attention(const Call& c, const Shape& result, const Cut& cut, Pushed p) {
  const size_t rank = result.size(), length = rank - 2;
  if (c.rank("query") != static_cast<int64_t>(rank) || cut.steps[length] != 1) return std::nullopt;
  for (size_t axis = 0; axis < rank; ++axis) {
    if (axis != length && !cut.is_whole(result, axis)) return std::nullopt;
  }
  Cut queries = Cut::whole(c.shape("query"));
  queries.take(length, cut, length);
  p.operands[0] = queries;
  if (c.has("attn_mask") && c.rank("attn_mask") >= 2) {
    const Shape& mask = c.shape("attn_mask");
    const size_t rows = mask.size() - 2;
    Cut own = Cut::whole(mask);
    if (mask[rows] == result[length])
      own.take(rows, cut, length);
    else if (mask[rows] != Dim(1))
      return std::nullopt;
    p.operands[3] = own;
  }
  if (c.boolean("is_causal") || c.has("window")) set(p.attributes, "query_offset", c.dim("query_offset") + cut.starts[length]);
  return p;
}

std::optional<Pushed> push_rotary(const Call& c, const Shape& result, const Cut& cut, Pushed p) {
  if (result.empty() || !cut.is_whole(result, result.size() - 1)) return std::nullopt;
  const Shape& angles = c.shape("cos");
  Cut own = Cut::whole(angles);
  const size_t inserted = c.has("unsqueeze_dim") ? static_cast<size_t>(c.integer("unsqueeze_dim")) : angles.size();
  const size_t aligned = angles.size() + (c.has("unsqueeze_dim") ? 1 : 0);
  for (size_t axis = 0; axis + 1 < angles.size(); ++axis) {
    const size_t to = result.size() - aligned + axis + (axis >= inserted ? 1 : 0);
    if (angles[axis] == Dim(1) && result[to] != Dim(1)) continue;
    if (angles[axis] != result[to] && !cut.is_whole(result, to)) return std::nullopt;
    if (angles[axis] == result[to]) own.take(axis, cut, to);
  }
  p.operands = {cut, own, own};
  return p;
}

struct Rule {
  Push push;
  bool is_heavy;  // less of it is worth moving a slice for
};

const Rule* rule_for(const Graph& g, const Node& node) {
  static const std::map<std::string_view, Rule> table = {{"linear", {push_linear, true}},
                                                         {"dot_general", {push_dot_general, true}},
                                                         {"scaled_dot_product_attention", {push_attention, true}},
                                                         {"layer_norm", {push_norm, true}},
                                                         {"rms_norm", {push_norm, true}},
                                                         {"softmax", {push_softmax, true}},
                                                         {"rotary_embedding", {push_rotary, true}},
                                                         {"transpose", {push_transpose, false}},
                                                         {"reshape", {push_reshape, false}},
                                                         {"broadcast", {push_broadcast, false}},
                                                         {"concat", {push_concat, false}}};
  static const Rule elementwise{push_elementwise, false};
  if (node.results.size() != 1 || node.op->is_random) return nullptr;
  const auto found = table.find(node.op->name);
  if (found != table.end()) return &found->second;
  if (!node.op->is_pointwise) return nullptr;
  const Shape& shape = g.type(node.results[0]).shape;
  const bool are_alike = std::all_of(node.operands.begin(), node.operands.end(),
                                     [&](ValueId v) { return v != kNoValue && g.type(v).shape == shape; });
  return are_alike ? &elementwise : nullptr;
}

std::optional<Pushed> pushed(const Graph& g, const Node& node, const Cut& cut) {
  const Rule* rule = rule_for(g, node);
  if (!rule) return std::nullopt;
  Pushed start{std::vector<std::optional<Cut>>(node.operands.size()), node.attributes};
  auto p = rule->push(call_of(g, node), g.type(node.results[0]).shape, cut, std::move(start));
  for (size_t i = 0; p && i < node.operands.size(); ++i) {
    if (!p->operands[i]) continue;
    const Shape& shape = g.type(node.operands[i]).shape;
    if (p->operands[i]->is_whole(shape)) p->operands[i].reset();
  }
  return p;
}

class Slices {
 public:
  explicit Slices(const Program& p) : graph_(p.graph), wanted_(p.graph.values.size()), moves_(p.graph.values.size()) {
    for (const ValueId v : p.graph.outputs) want(v, nullptr, kNoValue);
    for (size_t n = graph_.nodes.size(); n-- > 0;) look_at(graph_.nodes[n]);
    for (const Node& node : graph_.nodes) decide(node);
  }

  // Taps on what is not computed whole any more.
  void hide_taps(Program& p) const {
    for (Tap& tap : p.taps) {
      if (!moves_[tap.value]) continue;
      tap.value = wanted_[tap.value].taken_by;
      tap.inside = true;
    }
  }

  std::optional<Values> operator()(Builder& b, const Node& node, const Values& operands) {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] != kNoValue) in_new_[node.operands[i]] = operands[i];
    }
    const bool ends_here = node.op->name == "slice" && moves_[node.operands[0]] && !moves_[node.results[0]];
    if (!ends_here) return std::nullopt;
    const Origin origin = b.origin;
    const ValueId made = computed(b, node.operands[0]);
    b.origin = origin;
    return Values{made};
  }

 private:
  struct Wanted {
    enum class Kind { nothing, a_cut, all } kind = Kind::nothing;
    Cut cut;
    ValueId taken_by = kNoValue;  // the slice that the cut began with
  };

  void want(ValueId v, const Cut* cut, ValueId taken_by) {
    if (v == kNoValue) return;
    Wanted& w = wanted_[v];
    if (w.kind == Wanted::Kind::nothing && cut)
      w = {Wanted::Kind::a_cut, *cut, taken_by};
    else if (!cut || w.kind != Wanted::Kind::a_cut || !(w.cut == *cut))
      w = {Wanted::Kind::all, {}, kNoValue};
  }

  // From the last node to the first: what it needs of its operands for what is wanted of its result.
  void look_at(const Node& node) {
    const Wanted* wanted = node.results.size() == 1 ? &wanted_[node.results[0]] : nullptr;
    if (wanted && wanted->kind == Wanted::Kind::nothing) return;
    const bool is_cut = wanted && wanted->kind == Wanted::Kind::a_cut;
    if (node.op->name == "slice") {
      Cut cut = Cut::of(call_of(graph_, node));
      const bool steps_by_one = std::all_of(cut.steps.begin(), cut.steps.end(), [](int64_t s) { return s == 1; });
      if (is_cut && steps_by_one) {  // a slice of a slice
        Cut both = wanted->cut;
        for (size_t a = 0; a < cut.starts.size(); ++a) {
          both.starts[a] = cut.starts[a] + wanted->cut.starts[a];
          both.stops[a] = cut.starts[a] + wanted->cut.stops[a];
        }
        want(node.operands[0], &both, wanted->taken_by);
      } else {
        if (is_cut) wanted_[node.results[0]] = {Wanted::Kind::all, {}, kNoValue};
        want(node.operands[0], &cut, node.results[0]);
      }
      return;
    }
    const auto p = is_cut ? pushed(graph_, node, wanted->cut) : std::nullopt;
    if (is_cut && !p) wanted_[node.results[0]].kind = Wanted::Kind::all;
    for (size_t i = 0; i < node.operands.size(); ++i)
      want(node.operands[i], p && p->operands[i] ? &*p->operands[i] : nullptr, p ? wanted->taken_by : kNoValue);
  }

  // From the first node to the last: a slice moves in front of a node when that saves something here or further up.
  void decide(const Node& node) {
    if (node.results.size() != 1 || wanted_[node.results[0]].kind != Wanted::Kind::a_cut) return;
    const auto any_moves = std::any_of(node.operands.begin(), node.operands.end(),
                                       [&](ValueId v) { return v != kNoValue && moves_[v]; });
    const Rule* rule = node.op->name == "slice" ? nullptr : rule_for(graph_, node);
    moves_[node.results[0]] = any_moves || (rule && rule->is_heavy);
  }

  // The cut of an old value, in the new graph.
  ValueId computed(Builder& b, ValueId v) {
    const auto found = made_.find(v);
    if (found != made_.end()) return found->second;
    const Node& node = graph_.nodes[graph_.values[v].node];
    if (node.op->name == "slice") return made_[v] = computed(b, node.operands[0]);
    const auto p = pushed(graph_, node, wanted_[v].cut);
    Values operands;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      const ValueId x = node.operands[i];
      if (x == kNoValue) {
        operands.push_back(kNoValue);
      } else if (moves_[x]) {
        operands.push_back(computed(b, x));
      } else {
        b.origin = node.origin;
        operands.push_back(p->operands[i] ? slice(b, x, *p->operands[i]) : in_new_.at(x));
      }
    }
    b.origin = node.origin;
    return made_[v] = b.create(node.op->name, std::move(operands), p->attributes);
  }

  ValueId slice(Builder& b, ValueId x, const Cut& cut) {
    for (const auto& [done, made] : sliced_[x]) {
      if (done == cut) return made;
    }
    const ValueId made = b.create("slice", {in_new_.at(x)}, cut.attributes());
    sliced_[x].emplace_back(cut, made);
    return made;
  }

  Graph graph_;                 // as it was
  PerValue<Wanted> wanted_;  // per value
  PerValue<bool> moves_;     // per value: only the cut of it is computed
  std::map<ValueId, ValueId> in_new_, made_;
  std::map<ValueId, std::vector<std::pair<Cut, ValueId>>> sliced_;
};

}  // namespace

Program push_slices(Program p, const OpTable& table) {
  Slices slices(p);
  slices.hide_taps(p);
  return rewrite_outside_regions(std::move(p), table,
                                 [&](Builder& b, const Node& node, const Values& operands) { return slices(b, node, operands); });
}

}  // namespace pycandle
