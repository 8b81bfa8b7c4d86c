#include "passes/decoding/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "ops/core/alignment.h"
#include "ops/core/constraints.h"
#include "passes/constants.h"
#include "passes/decoding/dispatch.h"
#include "passes/decoding/masks.h"
#include "passes/index_domain.h"

namespace pycandle::decoding {

Need none(int64_t rank) { return Need(static_cast<size_t>(rank)); }

void set(Attributes& attributes, std::string_view name, Attribute value) {
  const auto found = std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.first == name; });
  require(found != attributes.end(), "an attribute that is not there");
  found->second = std::move(value);
}

bool Rules::knows(std::string_view op) {
  return op == "reshape" || op == "iota" || op == "scaled_dot_product_attention" || op == "dim" || op == "histc" ||
         op == "scan" || op == "convolution";
}

ValueId Rules::apply() {
  if (!axes().factors(result)) refuse("a size has the length of the sequence in it in a way that is not understood");
  const std::string& op = node.op->name;
  const auto has_sequence = [&](ValueId v) { return v != kNoValue && axes().has_sequence(v); };
  if (!has_sequence(result) && std::none_of(node.operands.begin(), node.operands.end(), has_sequence)) return copied();
  if (op == "gather_nd" && all_are(need, Rows::fresh) && find_dispatch(g(), node)) return dispatch();
  if (op == "scan") return scan();
  if (const auto axis = window_axis()) return places_of(node, result, *axis, {0, 0});
  if (op == "reshape") return reshape();
  if (op == "iota") return iota();
  if (op == "scaled_dot_product_attention" && axes().of_tokens(result)) return attention();
  if (op == "broadcast" && &part == &d.step_) return broadcast();
  if (op == "rotary_embedding" && &part == &d.step_) return rotary();
  return aligned();
}

ValueId Rules::operand(size_t i, const Need& rows) { return d.value(part, node.operands[i], rows); }

// What has nothing to do with the sequence.
ValueId Rules::copied() {
  Values operands;
  for (const ValueId v : node.operands) operands.push_back(v == kNoValue ? v : d.value(part, v, none(g().type(v).rank())));
  const Values made = part.b.create_all(node.op->name, operands, node.attributes, node.regions);
  for (size_t i = 0; i < made.size(); ++i)
    part.known.emplace(std::pair{node.results[i], none(g().type(node.results[i]).rank())}, made[i]);
  return made[static_cast<size_t>(g().values[result].index)];
}

// The new tokens alone are sorted by expert and put back: the same nodes, since sizes are those of the new tokens already.
ValueId Rules::dispatch() {
  const Dispatch found = *find_dispatch(g(), node);
  std::map<ValueId, ValueId> copies;
  const std::function<ValueId(ValueId)> copy = [&](ValueId v) {
    if (v == kNoValue) return v;
    if (const auto known = copies.find(v); known != copies.end()) return known->second;
    const Node* from = defining_node(g(), v);
    const bool is_plain = !axes().of_tokens(v) && !axes().has_sequence(v);
    if (!from || is_plain || found.entries.count(v) != 0)
      return copies[v] = d.value(part, v, is_plain ? none(g().type(v).rank()) : axes().every(v, Rows::fresh));
    Values operands;
    for (const ValueId o : from->operands) operands.push_back(copy(o));
    const Origin origin = std::exchange(part.b.origin, from->origin);
    const Values made = part.b.create_all(from->op->name, operands, from->attributes, from->regions);
    part.b.origin = origin;
    for (size_t i = 0; i < made.size(); ++i) copies[from->results[i]] = made[i];
    return copies.at(v);
  };
  return copy(result);
}

// ---- ops that treat every place alike

ValueId Rules::aligned() {
  const auto alignment = alignment_of(call, node.operands, g().type(result).shape);
  if (!alignment) refuse(fmt::format("what {} does along the sequence is not known", node.op->name));
  for (size_t axis = 0; axis < need.size(); ++axis) {
    if (need[axis].empty() || alignment->is_free[axis]) continue;
    if (node.op->name == "slice" && !axes().of_tokens(result)) return first_rows();
    if (need[axis] == std::vector{Rows::all} && (node.op->name == "slice" || node.op->name == "concat"))
      return extended(static_cast<int64_t>(axis));
    if (is_running(node.op->name)) return running();
    if (node.op->name == "softmax" && is_over_masked(axis)) continue;
    refuse(fmt::format("{} mixes positions along the sequence", node.op->name));
  }
  Values operands(node.operands.size(), kNoValue);
  for (size_t i = 0; i < operands.size(); ++i) {
    const ValueId from = node.operands[i];
    if (from == kNoValue) continue;
    if (!axes().factors(from)) refuse("a size has the length of the sequence in it in a way that is not understood");
    Need rows = none(g().type(from).rank());
    for (size_t axis = 0; axis < need.size(); ++axis) {
      const int64_t own = node.op->name == "softmax" ? static_cast<int64_t>(axis) : alignment->axes[i][axis];
      if (own != Alignment::kAbsent && g().type(from).shape[own] == g().type(result).shape[axis]) rows[own] = need[axis];
    }
    const Need whole = axes().every(from, Rows::all);
    for (size_t own = 0; own < rows.size(); ++own) {
      if (rows[own].size() == whole[own].size()) continue;
      if (node.op->name == "dot_general") return weighted_sum();
      if (node.op->name == "reduce_max" && is_largest_of_masked(rows, static_cast<int64_t>(own))) {
        rows[own] = whole[own];
        continue;
      }
      refuse(fmt::format("{} reads all positions at once, later ones too", node.op->name));
    }
    operands[i] = operand(i, rows);
  }
  note_longest();
  Builder& b = part.b;
  const Values made = b.create_all(node.op->name, operands, attributes(operands), node.regions);
  for (size_t i = 0; i < made.size(); ++i) part.known.emplace(std::pair{node.results[i], need}, made[i]);
  const ValueId own = made[static_cast<size_t>(g().values[result].index)];
  const Shape expected = axes().shape(result, need);
  if (b.shape(own) != expected)
    refuse(fmt::format("{} gives {} where {} is needed", node.op->name, to_string(b.shape(own)), to_string(expected)));
  return own;
}

// weight[positions + offset]: there are as many positions as the weight has rows.
void Rules::note_longest() {
  const std::string& op = node.op->name;
  const bool picks = op == "gather_nd" && node.operands.size() == 2;
  if (op != "embedding" && op != "take" && !picks) return;
  const ValueId indices = node.operands[1], weight = node.operands[0];
  const int64_t indexed = op == "take" ? call.integer("axis") : picks ? call.integers("axes")[0] : 0;
  const auto rows = g().type(weight).shape[indexed].maybe_number();
  const auto axis = axes().sequence_axis(indices);
  if (!rows || !axis || axes().of_tokens(indices)) return;
  const SymbolRanges ranges = d.p_.ranges();
  IndexSpace space(&ranges);
  std::vector<Dim> index;
  for (size_t a = 0; a < g().type(indices).shape.size(); ++a) index.push_back(space.axis(a, g().type(indices).shape[a]));
  const ElementPtr element = IndexEvaluator(g(), space).element(indices, index);
  const std::string position = index[*axis].text();
  if (element->kind != Element::Kind::integer || space.factor(element->dim, position) != Dim(1)) return;
  const auto first = element->dim.substitute({{position, Dim(0)}}).maybe_number();
  if (first) d.longest_ = std::min(d.longest_.value_or(*rows - *first), *rows - *first);
}

// Sizes in attributes, with as many rows as are needed.
Attributes Rules::attributes(const Values& operands) const {
  Attributes changed = node.attributes;
  const std::string& op = node.op->name;
  if (op == "broadcast" || op == "constant") {
    set(changed, "shape", axes().shape(result, need));
  } else if (op == "slice") {
    Dims stops = call.dims("stops");
    for (size_t axis = 0; axis < need.size(); ++axis) {
      if (!need[axis].empty()) stops[axis] = part.b.shape(operands[0])[axis];
    }
    set(changed, "stops", stops);
  }
  for (const auto& [name, attribute] : changed) {
    const bool is_size = (op == "broadcast" || op == "constant") ? name == "shape" : op == "slice" && name == "stops";
    if (!is_size && axes().mentions_length(attribute)) refuse(fmt::format("{} has the length of the sequence as {}", op, name));
  }
  return changed;
}

// The order of the factors stays, so those of the sequence do.
ValueId Rules::reshape() {
  const ValueId from = node.operands[0];
  if (!axes().factors(from)) refuse("a size has the length of the sequence in it in a way that is not understood");
  std::vector<Rows> flat;
  for (const auto& axis : need) flat.insert(flat.end(), axis.begin(), axis.end());
  Need rows = axes().every(from, Rows::all);
  size_t next = 0;
  for (auto& axis : rows) {
    for (Rows& r : axis) r = flat.at(next++);
  }
  require(next == flat.size(), "a reshape that loses the sequence");
  return part.b.reshape(operand(0, rows), axes().shape(result, need));
}

ValueId Rules::iota() {
  require(!any_is(need, Rows::fresh), "positions of new tokens are read from a table");
  Attributes changed = node.attributes;
  if (!need[0].empty()) set(changed, "size", axes().capacity());
  if (axes().mentions_length(call.dim("size")) && call.dim("size") != axes().length()) refuse("a range depends on the length");
  return part.b.create("iota", {}, changed);
}

// table[:length]: as many rows as there are positions.
ValueId Rules::first_rows() {
  Dims stops = call.dims("stops");
  Need rows = none(g().type(node.operands[0]).rank());
  for (size_t axis = 0; axis < need.size(); ++axis) {
    const Dim start = call.dims("starts")[axis], size = g().type(node.operands[0]).shape[axis];
    if (need[axis].empty()) continue;
    const bool is_prefix = !axes().mentions_length(start) && call.integers("steps")[axis] == 1 &&
                           stops[axis] == start + axes().length() && need[axis][0] == Rows::all;
    if (!is_prefix) refuse("a slice depends on the length of the sequence");
    if (axes().mentions_length(size)) {
      if (size != axes().length() || start != Dim(0)) refuse("a slice depends on the length of the sequence");
      rows[axis] = need[axis];
    } else if (const auto longest = (size - start).maybe_number()) {
      d.longest_ = std::min(d.longest_.value_or(*longest), *longest);
    }
    stops[axis] = start + axes().capacity();
  }
  Attributes changed = node.attributes;
  set(changed, "stops", stops);
  return part.b.create("slice", {operand(0, rows)}, changed);
}

// ---- what depends on positions alone meets what depends on tokens

ValueId Rules::landed(size_t i, const Need& rows, size_t rank, size_t inserted) {
  const ValueId from = node.operands[i];
  const bool differs = from != kNoValue && d.differs_by_sequence(from, rows);
  const ValueId built = operand(i, rows);
  if (!differs) return built;
  ValueId& known = d.landed_.try_emplace({built, rank - inserted}, kNoValue).first->second;
  if (known != kNoValue) return known;
  Builder& b = part.b;
  Shape shape = b.shape(built);  // [batch, dims of the operand]
  const size_t own = shape.size() - 1 + inserted;
  if (own > rank) refuse("a table over positions has more axes than what it is used with");
  if (own == rank) {
    if (shape[1] != Dim(1)) refuse("a table over positions has an axis in the place of the batch");
    shape.erase(shape.begin() + 1);
  } else {
    shape.insert(shape.begin() + 1, rank - own - 1, Dim(1));
  }
  return known = d.reshaped(built, shape);
}

ValueId Rules::broadcast() {
  const ValueId from = node.operands[0];
  const auto batch = axes().batch_axis(result);
  const bool is_per_position = !axes().of_tokens(from) && axes().has_sequence(from) && any_is(need, Rows::fresh);
  if (!is_per_position || axes().batch_axis(from) || axes().is_alike(from)) return aligned();
  const Ints& to = call.integers("axes");
  Need rows = none(g().type(from).rank());
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (g().type(from).shape[axis] == g().type(result).shape[to[axis]]) rows[axis] = need[to[axis]];
  }
  if (!any_is(rows, Rows::fresh)) return aligned();
  if (!batch) refuse("a table over positions is used where there is no batch");
  // [batch, dims of x]: the first goes to the batch axis of the result, an axis of 1 that x has there goes away.
  Builder& b = part.b;
  ValueId x = operand(0, rows);
  Ints targets{*batch};
  Shape kept{axes().batch()};
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (to[axis] == *batch) continue;
    targets.push_back(to[axis]);
    kept.push_back(b.shape(x)[axis + 1]);
  }
  x = d.reshaped(x, kept);
  Ints order(targets.size());
  for (size_t k = 0; k < order.size(); ++k) order[k] = static_cast<int64_t>(k);
  std::sort(order.begin(), order.end(), [&](int64_t p, int64_t q) { return targets[p] < targets[q]; });
  Ints sorted;
  for (const int64_t k : order) sorted.push_back(targets[k]);
  return b.broadcast(b.transpose(x, order), axes().shape(result, need), sorted);
}

ValueId Rules::rotary() {
  const auto alignment = alignment_of(call, node.operands, g().type(result).shape);
  const ValueId cos = node.operands[1];
  Need rows = none(g().type(cos).rank());
  for (size_t axis = 0; axis < need.size(); ++axis) {
    const int64_t own = alignment->axes[1][axis];
    if (!need[axis].empty() && !alignment->is_free[axis]) refuse("a rotation mixes positions");
    if (own != Alignment::kAbsent) rows[own] = need[axis];
  }
  const bool inserts = call.has("unsqueeze_dim");
  const size_t rank = need.size();
  const Values operands{operand(0, need), landed(1, rows, rank, inserts ? 1 : 0), landed(2, rows, rank, inserts ? 1 : 0)};
  Attributes changed = node.attributes;
  const int64_t grown = part.b.rank(operands[1]) - g().type(cos).rank();
  if (inserts && grown > 0) set(changed, "unsqueeze_dim", call.integer("unsqueeze_dim") + grown);
  return part.b.create("rotary_embedding", operands, changed);
}

// ---- attention

ValueId Rules::attention() {
  const Shape& key = call.shape("key");
  const size_t positions = key.size() - 2;
  const ValueId k = call.value("key");
  if (!axes().factors(k)) refuse("a size has the length of the sequence in it in a way that is not understood");
  if (!axes().of_tokens(k) && !axes().has_sequence(k)) return cross_attention();
  if ((*axes().factors(k))[positions] != Factors{axes().length()}) refuse("keys do not stand along the sequence");
  require(call.boolean("is_causal"), "attention was checked");
  if (!all_are(need, Rows::fresh)) refuse("attention is read at all positions");
  return over_cache();
}

// Keys that do not depend on the tokens: each new token attends to all of them.
ValueId Rules::cross_attention() {
  if (call.boolean("is_causal") || call.has("window")) refuse("attention to another sequence is causal");
  Values operands(node.operands.size(), kNoValue);
  for (const size_t i : {1, 2, 4, 5, 6}) {
    if (node.operands[i] != kNoValue) operands[i] = operand(i, none(g().type(node.operands[i]).rank()));
  }
  operands[0] = operand(0, need);
  operands[3] = mask(3);
  return part.b.create(node.op->name, operands, node.attributes);
}

// A mask over [queries, keys]: new rows, all columns.
ValueId Rules::mask(size_t i) {
  const ValueId v = node.operands[i];
  if (v == kNoValue) return v;
  if (!axes().factors(v)) refuse("a mask has a size that is not understood");
  Need rows = axes().every(v, Rows::all);
  if (rows.size() >= 2) {
    for (Rows& r : rows[rows.size() - 2]) r = Rows::fresh;
  }
  return landed(i, rows, call.shape("query").size());
}

ValueId Rules::over_cache() {
  Builder& b = part.b;
  const ValueId q = call.value("query");
  if (!axes().factors(q)) refuse("a size has the length of the sequence in it in a way that is not understood");
  const auto& query_axes = *axes().factors(q);
  const size_t rank = query_axes.size();
  // [batch * heads, length, width]: heads get an axis of their own.
  const bool is_merged = rank == 3 && query_axes[0].size() > 1 && query_axes[0][0] == axes().batch();
  if (!is_merged && (rank < 3 || query_axes[0] != Factors{axes().batch()})) refuse("attention whose first axis is not the batch");
  const auto with_heads = [&](ValueId v, ValueId of) {
    if (!is_merged || v == kNoValue) return v;
    Shape shape = b.shape(v);
    const auto& first = (*axes().factors(of))[0];
    shape.front() = product(Shape(first.begin() + 1, first.end()));
    shape.insert(shape.begin(), axes().batch());
    return b.reshape(v, shape);
  };
  Values operands(8, kNoValue);
  const auto over_positions = [&](size_t i) {
    d.asked_for_ = node.op->operand_specs[i].name;
    const ValueId all = operand(i, axes().every(node.operands[i], Rows::all));
    d.asked_for_.clear();
    return all;
  };
  for (const size_t i : {1, 2}) operands[i] = with_heads(over_positions(i), node.operands[i]);
  operands[0] = with_heads(operand(0, axes().every(q, Rows::fresh)), q);
  operands[3] = d.first_row(node.operands[1]);
  if (is_merged && node.operands[3] != kNoValue) refuse("a mask over heads that are merged with the batch");
  operands[4] = mask(3);
  for (const size_t i : {4, 5}) {
    if (node.operands[i] != kNoValue) operands[i + 1] = over_positions(i);
  }
  if (const ValueId positions = node.operands[6]; positions != kNoValue) {
    const ValueId own = without_common_shift(positions);
    d.asked_for_ = node.op->operand_specs[6].name;
    operands[7] = b.cast(d.value(part, own, axes().every(own, Rows::all)), g().type(positions).dtype);
    d.asked_for_.clear();
  }
  Attributes kept;
  for (const auto& [name, attribute] : node.attributes) {
    if (name != "is_causal" && name != "query_offset") kept.emplace_back(name, attribute);
  }
  return b.reshape(b.create("cached_attention", operands, kept), axes().shape(result, need));
}

// ALiBi counts from the end of the sequence in some models: j - length. A softmax over the keys does not see what is added to
// all of them, so the count from the start gives the same weights.
ValueId Rules::without_common_shift(ValueId v) const {
  const Node* to = defined_by(g(), v, "cast");
  const Node* sum = to ? defining_node(g(), to->operands[0]) : defining_node(g(), v);
  if (!sum || (sum->op->name != "add" && sum->op->name != "sub")) return v;
  const Node* shift = defined_by(g(), sum->operands[1], "broadcast");
  const bool is_common = shift && axes().of_length(shift->operands[0]) && !axes().of_tokens(shift->operands[0]) &&
                         g().type(shift->operands[0]).rank() == 0;
  return is_common ? sum->operands[0] : v;
}

// Attention that is written out: a softmax over keys, of which the later ones are masked.
bool Rules::is_over_masked(size_t key) const {
  if (need[key] != std::vector{Rows::all} || axes().sequence_count(result) != 2) return false;
  for (size_t query = 0; query < need.size(); ++query) {
    if (need[query] == std::vector{Rows::fresh})
      return is_masked_behind(d.p_, axes(), node.operands[0], static_cast<int64_t>(query), static_cast<int64_t>(key));
  }
  return false;
}

// … and the largest of them, which is taken off before.
bool Rules::is_largest_of_masked(const Need& rows, int64_t key) const {
  const auto query = std::find(rows.begin(), rows.end(), std::vector{Rows::fresh});
  return query != rows.end() && is_masked_behind(d.p_, axes(), node.operands[0], query - rows.begin(), key);
}

// Scores with some places behind those of the keys that are no keys (attention sinks), and the same cut off again.
ValueId Rules::extended(int64_t axis) {
  Builder& b = part.b;
  if (node.op->name == "concat") {
    Values operands;
    for (size_t i = 0; i < node.operands.size(); ++i) {
      Need rows = need;
      if (!axes().factors(node.operands[i]))
        refuse("a size has the length of the sequence in it in a way that is not understood");
      rows[axis].resize(axes().every(node.operands[i], Rows::all)[axis].size(), Rows::all);
      operands.push_back(operand(i, rows));
    }
    return b.create("concat", operands, node.attributes);
  }
  const ValueId from = node.operands[0];
  const bool is_prefix = axes().factors(from) && call.dims("starts")[axis] == Dim(0) && call.integers("steps")[axis] == 1 &&
                         call.dims("stops")[axis] == axes().length() && axes().every(from, Rows::all)[axis] == need[axis];
  if (!is_prefix) refuse("a slice depends on the length of the sequence");
  Attributes changed = node.attributes;
  Dims stops = call.dims("stops");
  const ValueId rows = operand(0, need);
  for (size_t a = 0; a < need.size(); ++a) {
    if (!need[a].empty()) stops[a] = static_cast<int64_t>(a) == axis ? axes().capacity() : b.shape(rows)[a];
  }
  set(changed, "stops", stops);
  return b.create("slice", {rows}, changed);
}

// … and the sum of the values by those weights.
ValueId Rules::weighted_sum() {
  const Ints* contracted[2] = {&call.integers("contract_left"), &call.integers("contract_right")};
  const auto alignment = *alignment_of(call, node.operands, g().type(result).shape);
  for (const size_t weights : {0, 1}) {
    const ValueId w = node.operands[weights], x = node.operands[1 - weights];
    if (contracted[weights]->size() != 1 || axes().sequence_count(w) != 2 || axes().sequence_count(x) != 1) continue;
    const int64_t key = contracted[weights]->front();
    for (size_t axis = 0; axis < need.size(); ++axis) {
      const int64_t query = alignment.axes[weights][axis];
      if (need[axis] != std::vector{Rows::fresh} || query == Alignment::kAbsent) continue;
      if (!is_zero_behind(d.p_, axes(), w, query, key)) continue;
      Need of_weights = axes().every(w, Rows::all);
      of_weights[query] = need[axis];
      Values operands(2);
      operands[weights] = operand(weights, of_weights);
      operands[1 - weights] = operand(1 - weights, axes().every(x, Rows::all));
      return part.b.create("dot_general", operands, node.attributes);
    }
  }
  refuse("dot_general reads all positions at once, later ones too");
}

}  // namespace pycandle::decoding
