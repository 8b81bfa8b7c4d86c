// Results of a position and some before it: causal convolutions, tokens that are shifted (x[:, :-1] behind a row of zeros).
// Padding, slices and joins change which place of an axis is which position. Asked for the places of the new tokens, each op
// says which places of its operand these are, until a value is reached that has a row for each position: its rows are kept.
#include <fmt/format.h>

#include <algorithm>

#include "ops/core/alignment.h"
#include "passes/constants.h"
#include "passes/decoding/rules.h"

namespace pycandle::decoding {

std::optional<int64_t> Rules::window_axis() const {
  const std::string& op = node.op->name;
  const bool shifts = op == "slice" || op == "pad" || op == "concat" || op == "convolution";
  const auto axis = axes().sequence_axis(result);
  if (!shifts || &part != &d.step_ || !axis || !axes().of_tokens(result) || need[*axis] != std::vector{Rows::fresh})
    return std::nullopt;
  const auto alignment = alignment_of(call, node.operands, g().type(result).shape);
  return alignment && alignment->is_free[*axis] ? std::nullopt : axis;
}

ValueId Rules::places(ValueId v, int64_t axis, Places at) {
  const auto longer = (g().type(v).shape[axis] - axes().length()).maybe_number();
  if (!longer) refuse(fmt::format("{} changes the length of the sequence", node.op->name));
  if (at.first + at.more > *longer) refuse(fmt::format("{} sees later positions", node.op->name));
  if (axes().sequence_axis(v) == axis) {
    if (at.first == 0 && at.more == 0) return d.value(part, v, axes().every(v, Rows::fresh));
    return kept_places(v, axis, at);
  }
  const Node* from = defining_node(g(), v);
  if (!from) refuse(fmt::format("{} reads an input that is longer than the sequence", node.op->name));
  return places_of(*from, v, axis, at);
}

ValueId Rules::places_of(const Node& n, ValueId v, int64_t axis, Places at) {
  Builder& b = part.b;
  const std::string& op = n.op->name;
  const Call c = call_of(g(), n);
  const Dim count = axes().length() + at.more;
  if (op == "convolution") return convolved(n, axis, at);
  if (op == "concat" && c.integer("axis") == axis) return joined(n, axis, at);
  if (op == "slice") {
    const auto start = c.dims("starts")[axis].maybe_number();
    if (!start || c.integers("steps")[axis] != 1) refuse("a slice depends on the length of the sequence");
    const ValueId rows = places(n.operands[0], axis, {at.first + *start, at.more});
    Dims starts = c.dims("starts"), stops = c.dims("stops");
    starts[axis] = 0;
    stops[axis] = count;
    return b.create("slice", {rows}, {{"starts", starts}, {"stops", stops}, {"steps", c.integers("steps")}});
  }
  if (op == "pad") {
    const auto low = c.dims("low")[axis].maybe_number();
    if (!low) refuse("a padding depends on the length of the sequence");
    const Places inner{at.first - *low, at.more};
    Attributes changed = n.attributes;
    Dims lows = c.dims("low"), highs = c.dims("high");
    lows[axis] = highs[axis] = 0;
    set(changed, "low", lows);
    set(changed, "high", highs);
    const ValueId rows = b.create("pad", {places(n.operands[0], axis, inner)}, changed);
    return filled_before(rows, axis, inner, c.scalar("value"));
  }
  return places_aligned(n, v, axis, at);
}

ValueId Rules::places_aligned(const Node& n, ValueId v, int64_t axis, Places at) {
  const Shape& shape = g().type(v).shape;
  const auto alignment = alignment_of(call_of(g(), n), n.operands, shape);
  if (!alignment || !alignment->is_free[axis]) refuse(fmt::format("{} mixes positions along the sequence", n.op->name));
  Values operands(n.operands.size(), kNoValue);
  for (size_t i = 0; i < operands.size(); ++i) {
    const ValueId from = n.operands[i];
    if (from == kNoValue) continue;
    const int64_t own = alignment->axes[i][axis];
    if (own != Alignment::kAbsent && g().type(from).shape[own] == shape[axis])
      operands[i] = places(from, own, at);
    else if (!axes().has_sequence(from))
      operands[i] = d.value(part, from, none(g().type(from).rank()));
    else
      refuse(fmt::format("{} joins a window with all positions", n.op->name));
  }
  Attributes changed = n.attributes;
  if (n.op->name == "broadcast" || n.op->name == "constant") {
    Shape wanted = shape;
    wanted[axis] = axes().length() + at.more;
    set(changed, "shape", wanted);
  }
  const Values made = part.b.create_all(n.op->name, operands, changed, n.regions);
  return made[static_cast<size_t>(g().values[v].index)];
}

// A kernel over some places: those before the new tokens that it reaches, and no padding any more.
ValueId Rules::convolved(const Node& n, int64_t axis, Places at) {
  const Call c = call_of(g(), n);
  const auto spatial = static_cast<size_t>(axis - 2);
  const auto kernel = axis < 2 ? std::nullopt : c.shape("weight")[axis].maybe_number();
  if (!kernel || c.integers("strides")[spatial] != 1 || c.integers("input_dilation")[spatial] != 1)
    refuse("a convolution with a stride changes the length of the sequence");
  if (axes().has_sequence(n.operands[1])) refuse("a convolution whose kernel has the sequence in it");
  Ints low = c.integers("padding_low"), high = c.integers("padding_high");
  const Places inner{at.first - low[spatial], at.more + c.integers("dilation")[spatial] * (*kernel - 1)};
  low[spatial] = high[spatial] = 0;
  Attributes changed = n.attributes;
  set(changed, "padding_low", low);
  set(changed, "padding_high", high);
  const DType dtype = g().type(n.operands[0]).dtype;
  const Scalar zero = is_floating(dtype) ? Scalar(0.0) : Scalar(int64_t{0});
  const ValueId rows = filled_before(places(n.operands[0], axis, inner), axis, inner, zero);
  return part.b.create("convolution", {rows, d.value(part, n.operands[1], none(c.rank("weight")))}, changed);
}

// [head, x]: rows that depend on no token stand before it. [x, tail]: nothing asks for the tail, since that is behind.
ValueId Rules::joined(const Node& n, int64_t axis, Places at) {
  Builder& b = part.b;
  if (n.operands.size() != 2) refuse("more than two parts are joined along the sequence");
  const ValueId head = n.operands[0], x = n.operands[1];
  const auto size = g().type(head).shape[axis].maybe_number();
  if (!size) return places(head, axis, at);
  if (axes().of_tokens(head) || axes().has_sequence(head)) refuse("what is joined before the sequence depends on it");
  const Places inner{at.first - *size, at.more};
  const ValueId rows = places(x, axis, inner);
  const Shape shape = b.shape(rows);
  const ValueId zero = b.full(int64_t{0}, DType::i64), last = b.full(*size - 1, DType::i64);
  const ValueId index = b.minimum(b.maximum(place_numbers(shape, axis, at), zero), last);
  const ValueId front = b.create("gather", {d.value(part, head, none(g().type(head).rank())), index}, {{"axis", axis}});
  return b.select(b.compare("lt", place_numbers(shape, axis, inner), zero), front, rows);
}

// Rows that are kept, of the new tokens and of some before them.
ValueId Rules::kept_places(ValueId v, int64_t axis, Places at) {
  Builder& b = part.b;
  if (!axes().of_tokens(v) || !axes().batch_axis(v)) refuse("a window over rows without a batch of their own");
  const ValueId all = d.value(part, v, axes().every(v, Rows::all));
  Shape shape = b.shape(all);
  shape[axis] = axes().length() + at.more;
  const ValueId index = b.maximum(place_numbers(shape, axis, at), b.full(int64_t{0}, DType::i64));
  return b.create("gather", {all, index}, {{"axis", axis}});
}

ValueId Rules::place_numbers(const Shape& shape, int64_t axis, Places at) {
  Builder& b = part.b;
  const auto rank = static_cast<int64_t>(shape.size());
  const auto found = std::find(shape.begin(), shape.end(), axes().batch());
  if (found == shape.end()) refuse("a window over rows without a batch of their own");
  const auto along = [&](ValueId v, int64_t to) {
    Shape one(static_cast<size_t>(rank), Dim(1));
    one[to] = b.shape(v)[0];
    return b.reshape(v, one);
  };
  const ValueId place = b.add(b.iota(axes().length() + at.more), b.full(at.first, DType::i64));
  return b.broadcast_to(b.add(along(d.lengths_, found - shape.begin()), along(place, axis)), shape);
}

ValueId Rules::filled_before(ValueId rows, int64_t axis, Places at, const Scalar& with) {
  Builder& b = part.b;
  if (at.first >= 0) return rows;
  const ValueId is_before = b.compare("lt", place_numbers(b.shape(rows), axis, at), b.full(int64_t{0}, DType::i64));
  return b.select(is_before, b.like(rows, with), rows);
}

}  // namespace pycandle::decoding
