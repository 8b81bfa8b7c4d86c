// What a position hands on to the next: running sums, and scans (LSTM, GRU, state spaces). The state after every position is
// kept as a row of a cache, so that sequences of different lengths share a batch and can be truncated.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "passes/decoding/rules.h"

namespace pycandle::decoding {

ValueId Rules::last_kept(ValueId cache, int64_t axis, ValueId initial) {
  return part.b.create("cache_last", {cache, initial, d.lengths_}, {{"axis", axis}});
}

namespace {

ValueId sum(Builder& b, ValueId x, ValueId y) { return b.add(x, y); }
ValueId product(Builder& b, ValueId x, ValueId y) { return b.mul(x, y); }
ValueId log_of_sum(Builder& b, ValueId x, ValueId y) {
  // Not below the lowest number: of two -inf the difference is no number.
  const ValueId top = b.maximum(b.maximum(x, y), static_cast<double>(std::numeric_limits<float>::lowest()));
  return b.add(b.log(b.add(b.exp(b.sub(x, top)), b.exp(b.sub(y, top)))), top);
}

// How the value before the new tokens is combined with what they give by themselves.
struct Combination {
  const char* op;
  double neutral;
  ValueId (*both)(Builder&, ValueId, ValueId);
};
constexpr Combination kCombinations[] = {
    {"cumsum", 0, sum}, {"cumprod", 1, product}, {"logcumsumexp", -std::numeric_limits<double>::infinity(), log_of_sum}};

const Combination* combination_of(std::string_view op) {
  const auto* const found = std::find_if(std::begin(kCombinations), std::end(kCombinations),
                                         [&](const Combination& c) { return c.op == op; });
  return found == std::end(kCombinations) ? nullptr : found;
}

}  // namespace

bool Rules::is_running(std::string_view op) { return combination_of(op) != nullptr; }

// The sum before the new tokens is the last one that was kept.
ValueId Rules::running() {
  Builder& b = part.b;
  const auto axis = axes().sequence_axis(result);
  if (!axis || *axis != call.integer("axis")) refuse("a running sum over more than the sequence");
  if (!axes().of_tokens(result)) {
    if (any_is(need, Rows::fresh)) refuse("a running sum of positions has a batch axis: the sequences stand at different ones");
    return b.create(node.op->name, {operand(0, need)}, node.attributes);  // of a table: each row has those before it
  }
  if (!all_are(need, Rows::fresh) || axes().batch_axis(result) != 0) refuse("a running sum without a batch of its own");
  const Type& type = g().type(result);
  const size_t index = d.states_.size();
  const ValueId before = d.state({CacheState::Kind::rows, d.state_name(result, node.origin.call, "sum"), *axis},
                                 {type.dtype, axes().shape(result, axes().every(result, Rows::all))});
  const ValueId fresh = b.create(node.op->name, {operand(0, need)}, node.attributes);
  const Combination& with = *combination_of(node.op->name);
  Shape one = b.shape(fresh);
  one[*axis] = 1;
  const ValueId neutral = is_floating(type.dtype) ? b.full(with.neutral, type.dtype, one)
                                                  : b.full(static_cast<int64_t>(with.neutral), type.dtype, one);
  const ValueId carried = last_kept(before, *axis, neutral);
  const ValueId total = with.both(b, fresh, b.broadcast_to(carried, b.shape(fresh)));
  d.updated_[index] = b.create("cache_append", {before, total, d.lengths_}, {{"axis", *axis}});
  return total;
}

// (carries, x_t) → (carries, y_t) for each position t. The carries after each position are results too, and kept.
ValueId Rules::scan() {
  Builder& b = part.b;
  const auto carries = static_cast<size_t>(call.integer("carries"));
  if (call.boolean("reverse")) refuse("a scan runs backwards: a position sees later ones");
  const auto index = static_cast<size_t>(g().values[result].index);
  if (index < carries) refuse("the last state of a scan depends on how many tokens there are");
  if (&part != &d.step_ || !axes().of_tokens(result) || need[0] != std::vector{Rows::fresh})
    refuse("a scan over what depends on positions alone");
  Values operands;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    const ValueId from = node.operands[i];
    Need rows = none(g().type(from).rank());
    if (i >= carries) rows[0] = {Rows::fresh};
    if (!axes().factors(from) || axes().every(from, Rows::fresh) != rows) refuse("a scan over more than the sequence");
    if (i >= carries && d.differs_by_sequence(from, rows)) refuse("a scan reads rows that depend on positions alone");
    operands.push_back(operand(i, rows));
  }
  Graph body = node.regions[0];
  struct Kept {
    size_t carry, given, state;  // a result of the scan after each step; the number of the state
    Ints order;                  // of [length, carry's dims]: batch and length first
  };
  std::vector<Kept> kept;
  for (size_t i = 0; i < carries; ++i) {
    if (body.outputs[i] == body.inputs[i]) continue;
    const auto batch = axes().batch_axis(node.operands[i]);
    if (!batch) refuse("a state of a scan without a batch of its own");
    const auto same = std::find(body.outputs.begin() + static_cast<std::ptrdiff_t>(carries), body.outputs.end(), body.outputs[i]);
    const auto given = static_cast<size_t>(same - body.outputs.begin());
    if (same == body.outputs.end()) body.outputs.push_back(body.outputs[i]);
    const Type& type = g().type(node.operands[i]);
    Ints order{*batch + 1, 0};
    Shape shape{axes().batch(), axes().capacity()};
    for (int64_t axis = 0; axis < type.rank(); ++axis) {
      if (axis == *batch) continue;
      order.push_back(axis + 1);
      shape.push_back(type.shape[axis]);
    }
    d.asked_for_ = "state";
    const std::string name = d.state_name(result, node.origin.call, "state");
    kept.push_back({i, given, d.states_.size(), order});
    const ValueId before = d.state({CacheState::Kind::rows, name, 1}, {type.dtype, shape});
    Ints own, back(order.size() - 1);  // of the carry itself, without the length
    for (const int64_t axis : order) {
      if (axis > 0) own.push_back(axis - 1);
    }
    for (size_t k = 0; k < own.size(); ++k) back[own[k]] = static_cast<int64_t>(k);
    const ValueId initial = b.unsqueeze(b.transpose(operands[i], own), 1);
    operands[i] = b.transpose(b.squeeze(last_kept(before, 1, initial), 1), back);
  }
  const Values made = b.create_all("scan", operands, node.attributes, {std::move(body)});
  for (size_t i = carries; i < node.results.size(); ++i)
    part.known.emplace(std::pair{node.results[i], axes().every(node.results[i], Rows::fresh)}, made[i]);
  for (const Kept& k : kept) {
    const ValueId before = d.step_.program.states[k.state].value;
    d.updated_[k.state] = b.create("cache_append", {before, b.transpose(made[k.given], k.order), d.lengths_},
                                   {{"axis", int64_t{1}}});
  }
  return made[index];
}

}  // namespace pycandle::decoding
