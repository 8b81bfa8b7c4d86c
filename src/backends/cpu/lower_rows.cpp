// Norms, softmax, reductions and lookups: work on rows.
#include <algorithm>

#include "backends/cpu/chain.h"
#include "backends/cpu/convolution.h"
#include "backends/cpu/kernel_step.h"
#include "backends/cpu/lowerings.h"
#include "backends/cpu/packing.h"
#include "backends/evaluator.h"

namespace pycandle::cpu {
namespace {

// x as rows of `columns` elements side by side.
View as_rows(Planner& p, const View& x, int64_t columns) {
  const int64_t rows = columns == 0 ? 0 : x.count() / columns;
  const auto m = reshaped(x, {rows, columns});
  if (m && (columns == 1 || m->strides[1] == 1)) return *m;
  return *reshaped(p.dense(x), {rows, columns});
}

int64_t row_of(const View& rows) { return rows.sizes[0] > 1 ? rows.strides[0] : rows.sizes[1]; }

std::vector<std::pair<BufferId, BufferId>> in_place(const View& x, const View& out) {
  if (x.is_dense() && x.offset == 0) return {{x.buffer, out.buffer}};
  return {};
}

bool is_f32(const Call& c) { return c.type("x").dtype == DType::f32; }

bool are_f32(const Call& c, std::initializer_list<const char*> names) {
  return std::all_of(names.begin(), names.end(), [&](const char* n) { return !c.has(n) || c.type(n).dtype == DType::f32; });
}

// ---- softmax

bool claims_softmax(const Call& c) { return is_f32(c) && c.rank("x") > 0; }

template <bool kLogarithm> bool lower_softmax(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const View x = p.view(node.operands[0]);
  if (x.count() == 0) {
    p.define(node.results[0], p.result(node.results[0]));
    return true;
  }
  const int64_t dim = p.call(index).integer("dim"), axis = dim < 0 ? dim + x.rank() : dim;
  Softmax args;
  args.rows = args.inner = 1;
  args.cols = x.sizes[axis];
  for (int64_t a = 0; a < x.rank(); ++a)
    if (a != axis) (a < axis ? args.rows : args.inner) *= x.sizes[a];
  View from;
  if (args.inner == 1) {
    from = as_rows(p, x, args.cols);
    args.x_row = row_of(from);
  } else {
    const Sizes sizes = {args.rows, args.cols, args.inner};
    const auto as_it_lies = reshaped(x, sizes);
    from = as_it_lies && as_it_lies->strides[2] == 1 ? *as_it_lies : *reshaped(p.dense(x), sizes);
    args.x_row = from.strides[0];
    args.x_col = from.strides[1];
    args.out_col = args.inner;
  }
  const View out = p.result(node.results[0]);
  args.out_row = args.cols * args.inner;
  args.logarithm = kLogarithm;
  const Kernels& k = kernels();
  add_kernel<Softmax>(p, {"softmax", 16.0 * static_cast<double>(x.count())}, k.softmax, k.softmax_units, k.softmax_scratch, args,
                      {{offsetof(Softmax, x), from}}, {{offsetof(Softmax, out), out}}, in_place(from, out));
  p.define(node.results[0], out);
  return true;
}

// ---- norms

bool claims_layer_norm(const Call& c) { return is_f32(c) && are_f32(c, {"weight", "bias"}); }

bool claims_rms_norm(const Call& c) {
  return is_f32(c) && are_f32(c, {"weight"}) && (!c.has("compute_dtype") || c.dtype("compute_dtype") == DType::f32) &&
         c.has("eps");
}

void add_norm(Planner& p, size_t index, Norm args, double eps, bool has_bias) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  int64_t columns = 1;
  for (const int64_t size : p.sizes(c.dims("normalized_shape"))) columns *= size;
  const View x = as_rows(p, p.view(node.operands[0]), columns);
  const View out = p.result(node.results[0]);
  args.rows = x.sizes[0];
  args.cols = columns;
  args.x_row = row_of(x);
  args.out_row = columns;
  args.eps = static_cast<float>(eps);
  std::vector<Bound> reads = {{offsetof(Norm, x), x}};
  if (c.has("weight")) reads.push_back({offsetof(Norm, weight), p.dense(c.value("weight"))});
  if (has_bias) reads.push_back({offsetof(Norm, bias), p.dense(c.value("bias"))});
  const Kernels& k = kernels();
  add_kernel<Norm>(p, {args.rms ? "rms_norm" : "layer_norm", 8.0 * static_cast<double>(x.count())}, k.norm, k.norm_units,
                   k.norm_scratch, args, reads, {{offsetof(Norm, out), out}}, in_place(x, out));
  p.define(node.results[0], out);
}

bool lower_layer_norm(Planner& p, size_t index) {
  const Call c = p.call(index);
  add_norm(p, index, {}, c.number("eps"), c.has("bias"));
  return true;
}

bool lower_rms_norm(Planner& p, size_t index) {
  const Call c = p.call(index);
  Norm args;
  args.rms = true;
  args.weight_plus = static_cast<float>(c.number("weight_offset"));
  add_norm(p, index, args, c.number("eps"), false);
  return true;
}

bool lower_group_norm(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const View x = p.dense(node.operands[0]), out = p.result(node.results[0]);
  GroupNorm args;
  args.batch = x.sizes[0];
  args.channels = x.sizes[1];
  args.size = 1;
  for (size_t a = 2; a < x.sizes.size(); ++a) args.size *= x.sizes[a];
  args.groups = c.integer("groups");
  args.eps = static_cast<float>(c.number("eps"));
  std::vector<Bound> reads = {{offsetof(GroupNorm, x), x}};
  if (c.has("weight")) reads.push_back({offsetof(GroupNorm, weight), p.dense(c.value("weight"))});
  if (c.has("bias")) reads.push_back({offsetof(GroupNorm, bias), p.dense(c.value("bias"))});
  const Kernels& k = kernels();
  add_kernel<GroupNorm>(p, {"group_norm", 8.0 * static_cast<double>(x.count())}, k.group_norm, k.group_norm_units,
                        k.group_norm_scratch, args, reads, {{offsetof(GroupNorm, out), out}}, in_place(x, out));
  p.define(node.results[0], out);
  return true;
}

// ---- reductions

template <Reduction kKind> bool lower_reduce(Planner& p, size_t index) {
  const Node& node = p.node(index);
  if (p.dtype(node.operands[0]) != DType::f32) return false;
  if (reduce_blocked(p, index, kKind)) return true;
  Ints axes = p.call(index).integers("axes");
  std::sort(axes.begin(), axes.end());
  const int64_t rank = p.graph().type(node.operands[0]).rank(), first_of_last = rank - static_cast<int64_t>(axes.size());
  // The last axes of what a chain computes: reduced there, tile by tile.
  if (!axes.empty() && axes.front() == first_of_last && p.chains().reduce(node.operands[0], axes.size(), kKind, node.results[0]))
    return true;
  const View x = p.view(node.operands[0]);
  if (axes.empty() || x.count() == 0) return false;
  // [outer, reduced, inner] for axes that are neighbours, those nearest to the end first.
  const Kernels& k = kernels();
  View from = p.dense(x);
  Sizes sizes = x.sizes;
  while (!axes.empty()) {
    const int64_t last = axes.back();
    int64_t first = last + 1;
    for (; !axes.empty() && axes.back() == first - 1; axes.pop_back()) --first;
    Reduce args;
    args.kind = kKind;
    args.outer = args.count = args.inner = 1;
    for (int64_t a = 0; a < static_cast<int64_t>(sizes.size()); ++a) {
      (a < first ? args.outer : a > last ? args.inner : args.count) *= sizes[a];
    }
    sizes.erase(sizes.begin() + first, sizes.begin() + last + 1);
    const View to = axes.empty() ? p.result(node.results[0])
                                 : dense_view(p.new_buffer(static_cast<size_t>(element_count(sizes)) * 4), DType::f32, sizes);
    add_kernel<Reduce>(p, {"reduce", static_cast<double>(from.count())}, k.reduce, k.reduce_units, k.reduce_scratch, args,
                       {{offsetof(Reduce, x), from}}, {{offsetof(Reduce, out), to}});
    from = to;
  }
  p.define(node.results[0], from);
  return true;
}

// ---- lookups

struct Looked {
  const int64_t* index = nullptr;  // or
  const int32_t* index32 = nullptr;
};
// The indices at run time; calls `refuse` when one is none of `rows` rows.
template <class Refuse> Looked looked_up(const Context& c, const View& indices, int64_t rows, Refuse refuse) {
  Looked looked;
  const auto is_out = [&](int64_t i) { return i < 0 || i >= rows; };
  bool is_wrong = false;
  if (indices.dtype == DType::i64) {
    looked.index = c.pointer<int64_t>(indices);
    is_wrong = std::any_of(looked.index, looked.index + indices.count(), is_out);
  } else {
    looked.index32 = c.pointer<int32_t>(indices);
    is_wrong = std::any_of(looked.index32, looked.index32 + indices.count(), is_out);
  }
  if (is_wrong) refuse();
  return looked;
}

// Rows of a table that is kept in fewer bytes: those of a tied embedding are the product's.
void take_narrow(Planner& p, size_t index, const NarrowWeight& table) {
  const Node& node = p.node(index);
  const View indices = p.dense(node.operands[1]), out = p.result(node.results[0]);
  GatherNarrow args;
  args.format = table.format;
  args.count = indices.count();
  args.k = table.k;
  Step step;
  step.kernel = "gather_narrow";
  step.bytes = 2 * out.bytes() + indices.bytes();
  step.reads = {table.bytes.buffer, indices.buffer};
  step.writes = {out.buffer};
  step.run = [&g = p.graph(), &node, &bound = p.bindings(), args, table, indices, out, &k = kernels()](Context& c) {
    GatherNarrow filled = args;
    const Looked looked = looked_up(c, indices, table.n, [&] {  // the evaluator says which
      Evaluator{bound, 0, nullptr}.run(g, node, {Array(DType::f32, {table.n, table.k}), c.array(indices)});
    });
    filled.index = looked.index;
    filled.index32 = looked.index32;
    filled.narrow = c.pointer<uint8_t>(table.bytes);
    filled.out = c.pointer(out);
    k.gather_narrow(filled, 0, args.count, nullptr);
  };
  p.add(std::move(step));
  p.define(node.results[0], out);
}

bool lower_take(Planner& p, size_t index) {
  const Node& node = p.node(index);
  if (p.call(index).integer("axis") == 0 && !p.is_constant(node.operands[1])) {
    if (const auto table = narrow_weight(p, node.operands[0], 1); table && element_count(p.sizes(node.results[0])) > 0) {
      take_narrow(p, index, *table);
      return true;
    }
  }
  if (lower_take_by_pattern(p, index)) return true;
  const View table = p.view(node.operands[0]);
  const auto axis = static_cast<size_t>(p.call(index).integer("axis"));
  // Axes of one before it change nothing: a table over positions is [1, positions, width].
  const bool is_first = std::all_of(table.sizes.begin(), table.sizes.begin() + static_cast<std::ptrdiff_t>(axis),
                                    [](int64_t size) { return size == 1; });
  if (!is_first || !table.is_dense() || table.sizes[axis] == 0) return lower_take_along(p, index);
  const View indices = p.dense(node.operands[1]), out = p.result(node.results[0]);
  if (out.count() == 0) return false;
  GatherRows args;
  args.count = indices.count();
  args.table_rows = table.sizes[axis];
  args.row_bytes = table.count() / table.sizes[axis] * static_cast<int64_t>(size_of(table.dtype));
  args.table_row_bytes = args.out_row_bytes = args.row_bytes;
  Step step;
  step.kernel = "gather_rows";
  step.bytes = 2 * out.bytes() + indices.bytes();
  step.reads = {table.buffer, indices.buffer};
  step.writes = {out.buffer};
  step.run = [&g = p.graph(), &node, &bound = p.bindings(), args, table, indices, out, &k = kernels()](Context& c) {
    GatherRows filled = args;
    const Looked looked = looked_up(c, indices, args.table_rows, [&] {  // the evaluator says which
      Evaluator{bound, 0, nullptr}.run(g, node, {c.array(table), c.array(indices)});
    });
    filled.index = looked.index;
    filled.index32 = looked.index32;
    int64_t bad = 0;
    filled.table = c.pointer<std::byte>(table);
    filled.out = c.pointer<std::byte>(out);
    filled.bad = &bad;
    k.gather_rows(filled, 0, args.count, nullptr);
  };
  p.add(std::move(step));
  p.define(node.results[0], out);
  return true;
}

}  // namespace

std::vector<Lowering> row_lowerings() {
  return {{"softmax", claims_softmax, lower_softmax<false>},
          {"log_softmax", claims_softmax, lower_softmax<true>},
          {"layer_norm", claims_layer_norm, lower_layer_norm},
          {"rms_norm", claims_rms_norm, lower_rms_norm},
          {"group_norm", claims_layer_norm, lower_group_norm},
          {"reduce_sum", nullptr, lower_reduce<Reduction::sum>},
          {"reduce_max", nullptr, lower_reduce<Reduction::max>},
          {"reduce_min", nullptr, lower_reduce<Reduction::min>},
          {"take", nullptr, lower_take}};
}

}  // namespace pycandle::cpu
