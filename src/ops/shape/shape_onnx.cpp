// ONNX's operators on shapes: what only moves elements, and what makes shapes of other shapes.
#include <algorithm>
#include <numeric>

#include "ops/core/mapping.h"
#include "ops/core/onnx_helpers.h"
#include "ops/shape/shape_helpers.h"

namespace pycandle {
namespace {

// A 0 keeps the size of x; one -1 is what is left.
ValueId reshaped(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  const bool keeps = !c.has_argument("allowzero") || c.integer("allowzero") == 0;
  Shape shape = c.dims("shape");
  Dim given = 1;
  std::optional<size_t> open;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (keeps && shape[i] == Dim(0)) {
      c.expects(static_cast<int64_t>(i) < b.rank(x), "zeros at axes of x");
      shape[i] = b.shape(x)[i];
    }
    if (shape[i] == Dim(-1)) {
      c.expects(!open, "at most one -1 in the shape");
      open = i;
    } else {
      given = given * shape[i];
    }
  }
  if (open) {
    c.expects(given != Dim(0), "no size of 0 beside -1");
    shape[*open] = floordiv(product(b.shape(x)), given);
  }
  return b.reshape(x, shape);
}

ValueId flattened(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const int64_t rank = c.b.rank(x);
  int64_t axis = c.integer("axis");
  if (axis < 0) axis += rank;
  c.expects(axis >= 0 && axis <= rank, "an axis of x, or its rank");
  const Shape& shape = c.b.shape(x);
  const Shape before(shape.begin(), shape.begin() + axis), after(shape.begin() + axis, shape.end());
  return c.b.reshape(x, {product(before), product(after)});
}

ValueId transposed(AtenCall& c) {
  const ValueId x = c.tensor("x");
  auto permutation = c.maybe_integers("perm");
  if (!permutation) {
    permutation.emplace(static_cast<size_t>(c.b.rank(x)));
    std::iota(permutation->rbegin(), permutation->rend(), 0);
  }
  return c.b.transpose(x, *permutation);
}

Ints sorted_axes(AtenCall& c, int64_t rank) {
  Ints axes = c.integers("axes");
  for (int64_t& axis : axes) axis = c.b.normal_axis(axis, rank);
  std::sort(axes.begin(), axes.end());
  c.expects(std::adjacent_find(axes.begin(), axes.end()) == axes.end(), "axes that differ");
  return axes;
}

ValueId squeezed(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const Shape shape = c.b.shape(x);
  Ints axes;
  if (c.is_none("axes")) {
    for (size_t i = 0; i < shape.size(); ++i)
      if (shape[i] == Dim(1)) axes.push_back(static_cast<int64_t>(i));
  } else {
    axes = sorted_axes(c, c.b.rank(x));
  }
  Shape left;
  for (size_t i = 0; i < shape.size(); ++i) {
    const bool drops = std::binary_search(axes.begin(), axes.end(), static_cast<int64_t>(i));
    if (!drops)
      left.push_back(shape[i]);
    else
      c.expects(c.b.check(shape[i], Dim(1), "an axis that Squeeze removes"), "axes of size 1");
  }
  return c.b.reshape(x, left);
}

ValueId unsqueezed(AtenCall& c) {
  ValueId x = c.tensor("x");
  for (const int64_t axis : sorted_axes(c, c.b.rank(x) + static_cast<int64_t>(c.integers("axes").size())))
    x = c.b.unsqueeze(x, axis);
  return x;
}

// Both sides broadcast: a 1 in the shape keeps the size of x.
ValueId expanded(AtenCall& c) {
  const ValueId x = c.tensor("x");
  return c.b.broadcast_to(x, broadcast_shapes(c.b.shape(x), c.dims("shape")));
}

ValueId concatenated(AtenCall& c) {
  const Values xs = c.given_tensors("xs");
  return c.b.concat(xs, c.b.normal_axis(c.integer("axis"), c.b.rank(xs[0])));
}

Values split_into(AtenCall& c, const ValueId x, int64_t axis, const Dims& sizes) {
  c.expects(sizes.size() == c.result_count(), "a size for each output");
  Values parts;
  Dim at = 0;
  for (const Dim size : sizes) {
    parts.push_back(c.b.slice(x, axis, at, at + size));
    at = at + size;
  }
  c.expects(c.b.check(at, c.b.shape(x)[axis], "the sizes of Split"), "sizes that add up to the axis");
  return parts;
}

// Equal parts, of which the last may be smaller.
Values split(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const int64_t axis = c.b.normal_axis(c.integer("axis"), c.b.rank(x));
  const bool has_count = c.has_argument("num_outputs") && !c.is_none("num_outputs");
  const int64_t count = has_count ? c.integer("num_outputs") : static_cast<int64_t>(c.result_count());
  if (const auto sizes = c.maybe_dims("split")) return split_into(c, x, axis, *sizes);
  const Dim size = c.b.shape(x)[axis];
  c.expects(count > 0 && count == static_cast<int64_t>(c.result_count()), "as many outputs as parts");
  Dims sizes(static_cast<size_t>(count), has_count ? ceildiv(size, Dim(count)) : floordiv(size, Dim(count)));
  sizes.back() = size - sizes[0] * Dim(count - 1);
  return split_into(c, x, axis, sizes);
}

// Exporters write the largest numbers there are for "to the end" and "from the beginning".
std::optional<Dim> place_in_axis(Dim at, bool is_end) {
  constexpr int64_t kFar = int64_t{1} << 31;
  const auto number = at.maybe_number();
  if (!number || std::abs(*number / 2) < kFar / 2) return at;
  if (is_end == (*number > 0)) return std::nullopt;
  return Dim(*number > 0 ? kFar : -kFar);
}

// Ends beyond the axis are its ends; negative ones count from it.
ValueId sliced(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor("x");
  const Dims starts = c.dims("starts"), ends = c.dims("ends");
  c.expects(starts.size() == ends.size(), "as many ends as starts");
  Ints axes(starts.size()), steps(starts.size(), 1);
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has_argument("axes") && !c.is_none("axes")) axes = c.integers("axes");
  if (c.has_argument("steps") && !c.is_none("steps")) steps = c.integers("steps");
  c.expects(axes.size() == starts.size() && steps.size() == starts.size(), "an axis and a step for each start");
  for (size_t i = 0; i < starts.size(); ++i) {
    const int64_t axis = b.normal_axis(axes[i], b.rank(x));
    const Dim size = b.shape(x)[axis];
    c.expects(steps[i] != 0, "steps that are not 0");
    if (steps[i] > 0) {
      const SliceBounds bounds = python_slice(b, size, place_in_axis(starts[i], false), place_in_axis(ends[i], true), steps[i]);
      x = b.slice(x, axis, bounds.start, bounds.stop, steps[i]);
      continue;
    }
    // From the end: the reversed axis in steps forward. An end of -size - 1 or less means to the very beginning.
    const auto start = starts[i].maybe_number(), end = ends[i].maybe_number(), length = size.maybe_number();
    if (!start || !end) c.unsupported("a negative step where start or end is not a number");
    if (!length) {  // places from the end are places from the start of the reversed axis
      const bool is_far = !place_in_axis(*start, true);
      if ((*start >= 0 && !is_far) || *end >= 0)
        c.unsupported("a negative step where a place from the start is asked for, and the size is open");
      const Dim from = is_far ? Dim(0) : Dim(-1 - *start);
      const auto to = place_in_axis(*end, false) ? std::optional(Dim(-1 - *end)) : std::nullopt;
      const SliceBounds bounds = python_slice(b, size, from, to, -steps[i]);
      x = b.slice(b.reverse(x, {axis}), axis, bounds.start, bounds.stop, -steps[i]);
      continue;
    }
    const auto place = [&](int64_t at) { return at < 0 ? at + *length : at; };
    const int64_t first = std::clamp<int64_t>(place(*start), -1, *length - 1);
    const int64_t last = std::clamp<int64_t>(place(*end), -1, *length - 1);
    const int64_t from = *length - 1 - first, to = std::max(*length - 1 - last, from);
    x = b.slice(b.reverse(x, {axis}), axis, from, to, -steps[i]);
  }
  return x;
}

// The sizes of x from start to end, of all axes otherwise.
ValueId shape_of(AtenCall& c) {
  const Shape shape = c.b.shape(c.tensor("x"));
  const auto rank = static_cast<int64_t>(shape.size());
  const auto place = [&](int64_t at) { return std::clamp<int64_t>(at < 0 ? at + rank : at, 0, rank); };
  const int64_t start = c.has_argument("start") ? place(c.integer("start")) : 0;
  const int64_t end = c.has_argument("end") && !c.is_none("end") ? place(c.integer("end")) : rank;
  Values sizes;
  for (int64_t i = start; i < end; ++i) sizes.push_back(c.b.reshape(c.b.dim_value(shape[i]), {1}));
  if (sizes.empty()) return c.b.full(int64_t{0}, DType::i64, {0});
  return sizes.size() == 1 ? sizes[0] : c.b.concat(sizes, 0);
}

ValueId size_of_all(AtenCall& c) { return c.b.dim_value(product(c.b.shape(c.tensor("x")))); }

ValueId filled(AtenCall& c) {
  const auto value = c.maybe_tensor("value");
  return c.b.broadcast_to(value ? *value : c.b.full(0.0, DType::f32), c.dims("shape"));
}

// start, start + step, …: of whole numbers a count that may be a size, of others one that is known.
ValueId range(AtenCall& c) {
  Builder& b = c.b;
  if (c.has_argument("stash_type")) c.discard("stash_type", "computed in f64");
  const DType dtype = c.result().dtype;
  if (is_floating(dtype)) {
    const auto number = [&](const char* name) {
      const Numbers given = c.numbers(name);
      c.expects(given.size() == 1, "single numbers");
      return given[0];
    };
    const double first = number("start"), by = number("delta"), last = number("limit");
    c.expects(by != 0 && std::abs((last - first) / by) < 0x1p40, "a step that is not 0, and a sane count");
    const auto count = std::max<int64_t>(static_cast<int64_t>(std::ceil((last - first) / by)), 0);
    return b.cast(b.add(b.mul(b.iota(count, DType::f64), by), first), dtype);
  }
  const auto dim = [&](const char* name) {
    const Dims given = c.dims(name);
    c.expects(given.size() == 1, "single numbers");
    return given[0];
  };
  const Dim start = dim("start"), limit = dim("limit"), step = dim("delta");
  if (!step.is_number()) c.unsupported("a step that is a size");
  c.expects(step.number() != 0, "a step that is not 0");
  return b.cast(b.create("arange", {}, {{"start", start}, {"stop", limit}, {"step", step.number()}, {"dtype", DType::i64}}),
                dtype);
}

ValueId triangle(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const Dim diagonal = c.maybe_dim("k").value_or(Dim(0));
  return c.b.create(c.integer("upper") != 0 ? "triu" : "tril", {x}, {{"diagonal", diagonal}});
}

ValueId tiled(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const Dims repeats = c.dims("repeats");
  c.expects(static_cast<int64_t>(repeats.size()) == c.b.rank(x), "a number of repeats for each axis");
  return c.b.create("repeat", {x}, {{"repeats", repeats}});
}

// pads: all beginnings, then all ends.
ValueId padded(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  const Dims pads = c.dims(c.has_argument("paddings") ? "paddings" : "pads");
  Ints axes(static_cast<size_t>(b.rank(x)));
  std::iota(axes.begin(), axes.end(), 0);
  if (c.has_argument("axes") && !c.is_none("axes")) axes = c.integers("axes");
  c.expects(pads.size() == 2 * axes.size(), "two pads for each axis");
  Dims low(static_cast<size_t>(b.rank(x)), Dim(0)), high = low;
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = b.normal_axis(axes[i], b.rank(x));
    low[axis] = pads[i];
    high[axis] = pads[axes.size() + i];
  }
  const std::string mode = c.string("mode");
  const Numbers fill = c.numbers("value");  // one number, or a list of it
  c.expects(fill.size() <= 1, "one value");
  const Scalar value = fill.empty() ? 0.0 : fill[0];
  if (mode == "constant") return b.pad(x, low, high, value);
  const char* op = mode == "reflect" ? "reflection_pad"
                   : mode == "edge"  ? "replication_pad"
                   : mode == "wrap"  ? "circular_pad"
                                     : nullptr;
  if (op == nullptr) c.unsupported("mode='" + mode + "'");
  return b.create(op, {x}, {{"low", low}, {"high", high}});
}

const Node* defining_node(const Graph& g, ValueId v) {
  const NodeId node = g.values[v].node;
  return node == kNoNode ? nullptr : &g.nodes[node];
}

Call call_of(const Graph& g, const Node& n) { return {*n.op, g, n.operands, n.attributes, n.regions}; }

// Integers that count from 0, however they are laid out. False where the program does not show it.
bool is_never_negative(const Graph& g, ValueId v) {
  const Node* node = defining_node(g, v);
  while (node != nullptr && node->operands.size() == 1 && is_integral(g.type(node->operands[0]).dtype) &&
         (node->op->name == "reshape" || node->op->name == "broadcast" || node->op->name == "transpose" ||
          node->op->name == "slice" || node->op->name == "cast")) {
    node = defining_node(g, node->operands[0]);
  }
  if (node == nullptr) return false;
  const auto is_zero_or_more = [&](const char* name) {
    const std::optional<int64_t> number = call_of(g, *node).dim(name).maybe_number();
    return number && *number >= 0;
  };
  return node->op->name == "iota" ||
         (node->op->name == "arange" && is_zero_or_more("start") && call_of(g, *node).integer("step") > 0);
}

// Negative indices count from the end; sizes and numbers of the program are chosen when the file is read.
ValueId wrapped(Builder& b, ValueId indices, Dim size) {
  if (b.dtype(indices) == DType::i32) indices = b.cast(indices, DType::i64);
  const NodeId node = b.graph().values[indices].node;
  if (node != kNoNode && b.graph().nodes[node].op->name == "constant") {
    const int64_t index = as_int(scalar_of(b.graph().nodes[node].attributes.at(0).second));
    if (index >= 0) return indices;
    return b.broadcast_to(b.dim_value(size + Dim(index)), b.shape(indices));
  }
  if (is_never_negative(b.graph(), indices)) return indices;
  return b.select(b.compare("lt", indices, 0.0), b.add(indices, b.dim_value(size)), indices);
}

// What torch's lookups became: their indices are never negative.
ValueId looked_up(AtenCall& c) {
  const ValueId x = c.tensor("x"), indices = c.tensor("indices");
  const int64_t axis = c.b.normal_axis(c.integer("axis"), c.b.rank(x));
  const bool is_embedding = axis == 0 && c.b.rank(x) == 2 && is_floating(c.b.dtype(x));
  return is_embedding ? c.b.create("embedding", {x, indices}) : c.b.create("take", {x, indices}, {{"axis", axis}});
}

ValueId looked_up_elements(AtenCall& c) {
  const ValueId x = c.tensor("x");
  return c.b.create("gather", {x, c.tensor("indices")}, {{"axis", c.b.normal_axis(c.integer("axis"), c.b.rank(x))}});
}

ValueId gathered(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const int64_t axis = c.b.normal_axis(c.integer("axis"), c.b.rank(x));
  const ValueId given = c.tensor("indices");
  const Dim size = c.b.shape(x)[axis];
  // One index of the program: that slice.
  const NodeId node = c.b.graph().values[given].node;
  if (c.b.rank(given) == 0 && node != kNoNode && c.b.graph().nodes[node].op->name == "constant") {
    const int64_t index = as_int(scalar_of(c.b.graph().nodes[node].attributes.at(0).second));
    return c.b.select_index(x, axis, index < 0 ? size + Dim(index) : Dim(index));
  }
  if (axis == 0 && c.b.rank(x) == 2 && is_floating(c.b.dtype(x))) return c.b.create("embedding", {x, wrapped(c.b, given, size)});
  return c.b.create("take", {x, wrapped(c.b, given, size)}, {{"axis", axis}});
}

ValueId gathered_elements(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const int64_t axis = c.b.normal_axis(c.integer("axis"), c.b.rank(x));
  return c.b.create("gather", {x, wrapped(c.b, c.tensor("indices"), c.b.shape(x)[axis])}, {{"axis", axis}});
}

// indices[..., k] for each k: what was put together along the last axis is taken apart without a copy, and where all parts were
// broadcast against each other for it, they are what they were before.
Values index_parts(Builder& b, ValueId indices, int64_t depth) {
  const Graph& g = b.graph();
  const int64_t last = b.rank(indices) - 1;
  const Node* joined = defining_node(g, indices);
  const bool is_joined = joined != nullptr && joined->op->name == "concat" && call_of(g, *joined).integer("axis") == last &&
                         static_cast<int64_t>(joined->operands.size()) == depth &&
                         std::all_of(joined->operands.begin(), joined->operands.end(),
                                     [&](ValueId v) { return b.shape(v).back() == Dim(1); });
  const Values joins = is_joined ? joined->operands : Values{};
  Values parts;
  for (int64_t k = 0; k < depth; ++k) {
    const Node* view = is_joined ? defining_node(g, joins[k]) : nullptr;
    const bool is_unsqueezed = view != nullptr && view->op->name == "reshape" && b.rank(view->operands[0]) == last &&
                               b.shape(view->operands[0]) == first_dims(b.shape(joins[k]), static_cast<size_t>(last));
    parts.push_back(is_unsqueezed ? view->operands[0] : is_joined ? b.squeeze(joins[k], last) : b.select_index(indices, last, k));
  }
  Values small;
  Shape shape;
  for (const ValueId part : parts) {
    const Node* view = defining_node(g, part);
    const bool is_wider = view != nullptr && view->op->name == "broadcast" && b.rank(view->operands[0]) == b.rank(part);
    small.push_back(is_wider ? view->operands[0] : part);
    shape = broadcast_shapes(shape, b.shape(small.back()));
  }
  return shape == b.shape(parts[0]) ? small : parts;
}

// indices[..., k] are the places along the first k axes.
ValueId gathered_nd(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x"), indices = c.tensor("indices");
  const int64_t batch = c.has_argument("batch_dims") ? c.integer("batch_dims") : 0;
  c.expects(batch >= 0 && batch < std::min(b.rank(x), b.rank(indices)), "batch axes that both have");
  const int64_t depth = b.rank(indices) == 0 ? 0 : b.shape(indices).back().maybe_number().value_or(0);
  c.expects(depth >= 1 && depth <= b.rank(x), "indices whose last size is a number of axes of x");
  c.expects(batch + depth <= b.rank(x), "indices whose last size is a number of axes of x");
  Values operands{x};
  Ints axes;
  Shape places = b.shape(indices);
  places.pop_back();
  for (int64_t k = 0; k < batch; ++k) {  // the same place in the batch
    operands.push_back(b.broadcast_to(along_axis(b, b.iota(b.shape(x)[k]), k, static_cast<int64_t>(places.size())), places));
    axes.push_back(k);
  }
  const Values parts = index_parts(b, indices, depth);
  for (int64_t k = 0; k < depth; ++k) {
    operands.push_back(b.broadcast_to(wrapped(b, parts[k], b.shape(x)[batch + k]), places));
    axes.push_back(batch + k);
  }
  return b.create("gather_nd", std::move(operands), {{"axes", axes}});
}

ValueId scattered_elements(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const int64_t axis = c.b.normal_axis(c.integer("axis"), c.b.rank(x));
  const std::string reduction = c.has_argument("reduction") ? c.string("reduction") : "none";
  static const std::map<std::string, std::string> kReductions = {
      {"none", "none"}, {"add", "add"}, {"mul", "multiply"}, {"max", "amax"}, {"min", "amin"}};
  const auto found = kReductions.find(reduction);
  if (found == kReductions.end()) c.unsupported("reduction='" + reduction + "'");
  return c.b.create("scatter", {x, wrapped(c.b, c.tensor("indices"), c.b.shape(x)[axis]), c.tensor("updates")},
                    {{"axis", axis}, {"reduce", found->second}, {"include_self", true}});
}

// Blocks of channels become positions. DCR: depth first; CRD: the order of pixel_shuffle.
ValueId depth_to_space(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  const int64_t block = c.integer("blocksize");
  const std::string mode = c.has_argument("mode") ? c.string("mode") : "DCR";
  c.expects(b.rank(x) == 4 && block > 0, "[N, C, H, W] and a positive block");
  if (mode == "CRD") return b.create("pixel_shuffle", {x}, {{"factor", block}});
  if (mode != "DCR") c.unsupported("mode='" + mode + "'");
  const Shape s = b.shape(x);
  const Dim k = block, depth = floordiv(s[1], Dim(block * block));
  const ValueId y = b.transpose(b.reshape(x, {s[0], k, k, depth, s[2], s[3]}), {0, 3, 4, 1, 5, 2});
  return b.reshape(y, {s[0], depth, s[2] * k, s[3] * k});
}

ValueId space_to_depth(AtenCall& c) {
  Builder& b = c.b;
  if (c.has_argument("mode") && c.string("mode") != "DCR") c.unsupported("mode='" + c.string("mode") + "'");
  const ValueId x = c.tensor("x");
  const int64_t block = c.integer("blocksize");
  c.expects(b.rank(x) == 4 && block > 0, "[N, C, H, W] and a positive block");
  const Shape s = b.shape(x);
  const Dim k = block, high = floordiv(s[2], k), wide = floordiv(s[3], k);
  const ValueId y = b.transpose(b.reshape(x, {s[0], s[1], high, k, wide, k}), {0, 3, 5, 1, 2, 4});
  return b.reshape(y, {s[0], s[1] * k * k, high, wide});
}

using Formula = ValueId (*)(AtenCall&);

OpDef mapped(const char* op, std::initializer_list<const char*> overloads, Formula f) {
  OpDef def = mapping(op);
  for (const char* overload : overloads) def.from_aten_call(overload, [f](AtenCall& c) -> Values { return {f(c)}; });
  return def;
}

}  // namespace

std::vector<OpDef> shape_onnx_ops() {
  return {
      mapped("reshape", {"onnx.Reshape.1(x; shape=none)", "onnx.Reshape.5(x, shape#)", "onnx.Reshape.14(x, shape#; allowzero=0)"},
             reshaped),
      mapped("reshape", {"onnx.Flatten.1(x; axis=1)"}, flattened),
      mapped("reshape", {"onnx.Squeeze.1(x; axes=none)", "onnx.Squeeze.13(x, axes#?)"}, squeezed),
      mapped("reshape", {"onnx.Unsqueeze.1(x; axes!)", "onnx.Unsqueeze.13(x, axes#)"}, unsqueezed),
      mapped("transpose", {"onnx.Transpose.1(x; perm=none)"}, transposed),
      mapped("broadcast", {"onnx.Expand.8(x, shape#)"}, expanded),
      mapped("concat", {"onnx.Concat.1(xs*; axis=1)", "onnx.Concat.4(xs*; axis!)"}, concatenated),
      mapping("split")
          .from_aten_call("onnx.Split.2(x; axis=0, split=none)", split)
          .from_aten_call("onnx.Split.13(x, split#?; axis=0)", split)
          .from_aten_call("onnx.Split.18(x, split#?; axis=0, num_outputs=none)", split),
      mapped("slice", {"onnx.Slice.1(x; starts!, ends!, axes=none)", "onnx.Slice.10(x, starts#, ends#, axes#?, steps#?)"},
             sliced),
      mapped("dim", {"onnx.Shape.1(x)", "onnx.Shape.15(x; start=0, end=none)"}, shape_of),
      mapped("dim", {"onnx.Size.1(x)"}, size_of_all),
      mapped("constant", {"onnx.ConstantOfShape.9(shape#; value=none)"}, filled),
      mapped("arange", {"onnx.Range.11(start#, limit#, delta#)", "onnx.Range.27(start#, limit#, delta#; stash_type=1)"}, range),
      mapped("triu", {"onnx.Trilu.14(x, k#?; upper=1)"}, triangle),
      mapped("repeat", {"onnx.Tile.6(x, repeats#)"}, tiled),
      mapped("pad",
             {"onnx.Pad.1(x; paddings!, value=0.0, mode=\"constant\")", "onnx.Pad.2(x; pads!, value=0.0, mode=\"constant\")",
              "onnx.Pad.11(x, pads#, value#?; mode=\"constant\")", "onnx.Pad.18(x, pads#, value#?, axes#?; mode=\"constant\")"},
             padded),
      mapped("take", {"onnx.Gather.1(x, indices; axis=0)"}, gathered),
      mapped("gather", {"onnx.GatherElements.11(x, indices; axis=0)"}, gathered_elements),
      mapped("take", {"onnx.pycandle.Gather.1(x, indices; axis=0)"}, looked_up),
      mapped("gather", {"onnx.pycandle.GatherElements.1(x, indices; axis=0)"}, looked_up_elements),
      mapped("gather_nd", {"onnx.GatherND.11(x, indices)", "onnx.GatherND.12(x, indices; batch_dims=0)"}, gathered_nd),
      mapped("scatter",
             {"onnx.ScatterElements.11(x, indices, updates; axis=0)",
              "onnx.ScatterElements.16(x, indices, updates; axis=0, reduction=\"none\")"},
             scattered_elements),
      mapped("pixel_shuffle", {"onnx.DepthToSpace.1(x; blocksize!)", "onnx.DepthToSpace.11(x; blocksize!, mode=\"DCR\")"},
             depth_to_space),
      mapped("pixel_unshuffle", {"onnx.SpaceToDepth.1(x; blocksize!)", "onnx.SpaceToDepth.28(x; blocksize!, mode=\"DCR\")"},
             space_to_depth)};
}

}  // namespace pycandle
