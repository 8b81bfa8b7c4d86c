// Matrix products: linear with packed weights and everything that follows in its epilogue, dot_general by strides.
#include <string>

#include "backends/cpu/cache_rows.h"
#include "backends/cpu/epilogue.h"
#include "backends/cpu/lowerings.h"
#include "backends/cpu/packing.h"

namespace pycandle::cpu {
namespace {

int64_t row_stride(const View& matrix) { return matrix.sizes[0] > 1 ? matrix.strides[0] : std::max<int64_t>(matrix.sizes[1], 1); }
int64_t column_stride(const View& matrix) { return matrix.sizes[1] > 1 ? matrix.strides[1] : 1; }

// x as [rows, k], by strides if it can be.
View left_matrix(Planner& p, const View& x, int64_t rows, int64_t k) {
  if (const auto m = reshaped(x, {rows, k})) return *m;
  return *reshaped(p.dense(x), {rows, k});
}

bool claims_linear(const Call& c) { return c.type("x").dtype == DType::f32 && c.rank("weight") == 2; }

// What a layer's result, with its columns moved to another axis, is multiplied with: a constant for each column, as ConvNeXt's
// layer scale. It becomes a part of the weights.
struct ColumnScales {
  std::vector<double> scales;
  size_t transpose, mul;
};

std::optional<size_t> only_user(const Planner& p, ValueId v, const char* op) {
  const auto& users = p.shared().users[v];
  if (p.uses(v) != 1 || users.size() != 1 || p.is_done(users[0]) || p.node(users[0]).op->name != op) return std::nullopt;
  return users[0];
}

std::optional<ColumnScales> column_scales(Planner& p, ValueId y, int64_t n) {
  const auto transpose = only_user(p, y, "transpose");
  const auto mul = transpose ? only_user(p, p.node(*transpose).results[0], "mul") : std::nullopt;
  if (!mul) return std::nullopt;
  const Values& operands = p.node(*mul).operands;
  const ValueId factor = operands[0] == p.node(*transpose).results[0] ? operands[1] : operands[0];
  const NodeId by = p.graph().values[factor].node;
  if (by == kNoNode || p.node(static_cast<size_t>(by)).op->name != "broadcast") return std::nullopt;
  const Call broadcast = p.call(static_cast<size_t>(by));
  ValueId source = p.node(static_cast<size_t>(by)).operands[0];
  const Sizes sizes = p.sizes(source);
  const Ints &permutation = p.call(*transpose).integers("permutation"), &axes = broadcast.integers("axes");
  for (size_t a = 0; a < sizes.size(); ++a) {
    const bool is_column = permutation[static_cast<size_t>(axes[a])] == p.graph().type(y).rank() - 1;
    if (sizes[a] != (is_column ? n : 1)) return std::nullopt;
  }
  while (!p.is_constant(source)) {
    const NodeId node = p.graph().values[source].node;
    if (node == kNoNode || p.node(static_cast<size_t>(node)).op->name != "reshape") return std::nullopt;
    source = p.node(static_cast<size_t>(node)).operands[0];
  }
  std::vector<double> scales = load_double(*p.constant(source));
  if (static_cast<int64_t>(scales.size()) != n) return std::nullopt;
  return ColumnScales{std::move(scales), *transpose, *mul};
}

// The scales, when the weights can take them: packed, as rows of outputs, with a bias that is known.
std::optional<View> add_scaled(Planner& p, const Call& c, ValueId y, int64_t k, int64_t n, std::optional<ColumnScales>& found) {
  if (c.string("weight_order") == "in_out" || (c.has("bias") && !p.is_constant(c.value("bias")))) return std::nullopt;
  found = column_scales(p, y, n);
  return found ? scaled_right(p, c.value("weight"), k, n, found->scales) : std::nullopt;
}

View scaled_bias(Planner& p, const Call& c, const std::vector<double>& scales) {
  std::vector<double> bias = load_double(*p.constant(c.value("bias")));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] *= scales[i];
  const Sizes sizes{static_cast<int64_t>(bias.size())};
  return dense_view(p.constant_buffer(store(DType::f32, sizes, bias)), DType::f32, sizes);
}

void define_scaled(Planner& p, const ColumnScales& scaled, const View& out) {
  p.mark_done(scaled.transpose);
  p.mark_done(scaled.mul);
  p.define(p.node(scaled.mul).results[0], transposed(out, p.call(scaled.transpose).integers("permutation")));
}

void check_width(const View& x, int64_t k) {
  if (x.sizes.back() == k) return;
  throw Error(ErrorCode::bad_input, "the last dim of x is not what the weight takes in")
      .expected(std::to_string(k))
      .found(std::to_string(x.sizes.back()));
}

// Kernels may round what comes in to the weight's format: so does bf16, but for numbers that are of bf16 anyway.
bool is_of(Planner& p, ValueId x, WeightFormat format) {
  const NodeId node = p.graph().values[x].node;
  if (node == kNoNode || p.node(static_cast<size_t>(node)).op->name != "cast") return false;
  return half_format(p.dtype(p.node(static_cast<size_t>(node)).operands[0])) == format;
}

std::optional<NarrowWeight> narrow_weight_for(Planner& p, ValueId x, ValueId weight, int64_t axis) {
  const auto made_by = p.is_constant(weight) ? p.waiting_node(weight) : std::nullopt;
  if (!made_by) return std::nullopt;
  const Node& node = p.node(*made_by);
  const auto half = node.op->name == "cast" ? half_format(p.dtype(node.operands[0])) : std::nullopt;
  if (half && !is_of(p, x, *half)) return std::nullopt;
  return narrow_weight(p, weight, axis);
}

bool lower_linear(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const bool in_out = c.string("weight_order") == "in_out";
  const View x = p.view(c.value("x"));
  const Sizes weight_sizes = p.sizes(c.value("weight"));
  const int64_t k = weight_sizes[in_out ? 0 : 1], n = weight_sizes[in_out ? 1 : 0];
  check_width(x, k);
  const ValueId y = node.results[0];
  const int64_t m = k == 0 ? element_count(p.sizes(y)) / std::max<int64_t>(n, 1) : x.count() / k;
  const View a = left_matrix(p, x, m, k);

  Gemm args;
  args.m = m;
  args.k = k;
  args.a_row = row_stride(a);
  args.a_col = column_stride(a);
  const std::optional<NarrowWeight> narrow = narrow_weight_for(p, c.value("x"), c.value("weight"), in_out ? 0 : 1);
  // Few rows with a matrix that is kept for others as well (a tied embedding): read where it lies, it need not be packed.
  constexpr int64_t kFewRows = 4;
  const bool is_shared = m <= kFewRows && p.uses(c.value("weight")) > 1 && args.a_col == 1;
  std::vector<RightSide> sides;
  std::optional<ColumnScales> scaled;
  std::optional<View> scaled_weight;
  if (!narrow && !is_shared && p.is_constant(c.value("weight"))) scaled_weight = add_scaled(p, c, y, k, n, scaled);
  if (scaled_weight) {
    sides = {{0, n, *scaled_weight, true}};
    args.as_if_packed = true;
  } else if (narrow) {
    args.format = narrow->format;
    sides = {{0, n, narrow->bytes, true}};
  } else if (p.is_constant(c.value("weight")) && !is_shared) {
    sides = right_sides(p, c.value("weight"), k, n, !in_out);
    args.as_if_packed = true;
  } else {
    const View b = p.view(c.value("weight"));
    sides = {{0, n, b, false, b.strides[in_out ? 0 : 1], b.strides[in_out ? 1 : 0]}};
  }
  View bias;
  if (c.has("bias")) bias = scaled_weight ? scaled_bias(p, c, scaled->scales) : p.dense(c.value("bias"));
  FusedEpilogue fused = fuse_epilogue(p, y, m, n);
  const float* none = nullptr;
  args.epilogue = fused.epilogue;
  args.epilogue.bias = none;
  const View out = p.result(fused.value);
  args.c_row = n;
  std::vector<std::pair<BufferId, BufferId>> may_share;
  if (fused.residual != kNoBuffer && !c.has("bias") && sides.size() == 1) may_share.emplace_back(fused.residual, out.buffer);
  const Kernels& kernel = kernels();
  for (const RightSide& side : sides) {
    const auto columns = [&](View v) {
      v.offset += side.column;
      return v;
    };
    args.n = side.n;
    args.b_row = side.b_row;
    args.b_col = side.b_col;
    const size_t weight = narrow ? offsetof(Gemm, narrow) : side.is_packed ? offsetof(Gemm, packed) : offsetof(Gemm, b);
    std::vector<Bound> reads = {{offsetof(Gemm, a), a}, {weight, side.view}};
    constexpr size_t kEpilogue = offsetof(Gemm, epilogue);
    if (c.has("bias")) reads.push_back({kEpilogue + offsetof(Epilogue, bias), columns(bias)});
    for (const Bound& r : fused.reads) reads.push_back({kEpilogue + r.at, columns(r.view)});
    const KernelNames names{narrow ? "narrow_gemm" : "gemm", static_cast<double>(m) * static_cast<double>(side.n * k)};
    if (narrow) {
      add_kernel<Gemm>(p, names, kernel.narrow_gemm, kernel.narrow_gemm_units, kernel.narrow_gemm_scratch, args, reads,
                       {{offsetof(Gemm, c), columns(out)}}, may_share);
    } else {
      add_kernel<Gemm>(p, names, kernel.gemm, kernel.gemm_units, kernel.gemm_scratch, args, reads,
                       {{offsetof(Gemm, c), columns(out)}}, may_share);
    }
  }
  if (scaled_weight)
    define_scaled(p, *scaled, out);
  else
    p.define(fused.value, out);
  return true;
}

Ints rest_of(int64_t rank, const Ints& batch, const Ints& contract) {
  Ints rest;
  for (int64_t a = 0; a < rank; ++a) {
    const bool is_taken = std::find(batch.begin(), batch.end(), a) != batch.end() ||
                          std::find(contract.begin(), contract.end(), a) != contract.end();
    if (!is_taken) rest.push_back(a);
  }
  return rest;
}

int64_t count_over(const View& v, const Ints& axes) {
  int64_t n = 1;
  for (const int64_t a : axes) n *= v.sizes[a];
  return n;
}

// The view with these groups of axes as its axes, after the batch axes: [batch…, rows, columns].
std::optional<View> grouped(const View& v, const Ints& batch, const Ints& rows, const Ints& columns) {
  Ints order = batch;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), columns.begin(), columns.end());
  Sizes sizes;
  for (const int64_t a : batch) sizes.push_back(v.sizes[a]);
  sizes.push_back(count_over(v, rows));
  sizes.push_back(count_over(v, columns));
  return reshaped(transposed(v, order), sizes);
}

bool lower_dot_general(Planner& p, size_t index) {
  const Node& node = p.node(index);
  if (p.dtype(node.results[0]) != DType::f32 || p.dtype(node.operands[0]) != DType::f32) return false;
  const Call c = p.call(index);
  const Ints &batch_left = c.integers("batch_left"), &batch_right = c.integers("batch_right");
  const Ints &contract_left = c.integers("contract_left"), &contract_right = c.integers("contract_right");
  const View left = p.view(node.operands[0]), right = p.view(node.operands[1]);
  for (size_t i = 0; i < batch_left.size(); ++i) {
    if (left.sizes[batch_left[i]] != right.sizes[batch_right[i]]) return false;
  }
  for (size_t i = 0; i < contract_left.size(); ++i) {
    if (left.sizes[contract_left[i]] != right.sizes[contract_right[i]]) return false;
  }
  const Ints rows = rest_of(left.rank(), batch_left, contract_left), columns = rest_of(right.rank(), batch_right, contract_right);
  const auto dense_grouped = [&](const View& v, const Ints& batch, const Ints& first, const Ints& second) {
    if (const auto g = grouped(v, batch, first, second)) return *g;
    Ints order = batch;
    order.insert(order.end(), first.begin(), first.end());
    order.insert(order.end(), second.begin(), second.end());
    const View moved = p.dense(transposed(v, order));
    Sizes sizes;
    for (size_t i = 0; i < batch.size(); ++i) sizes.push_back(moved.sizes[i]);
    sizes.push_back(count_over(v, first));
    sizes.push_back(count_over(v, second));
    return *reshaped(moved, sizes);
  };
  View a = dense_grouped(left, batch_left, rows, contract_left), b = dense_grouped(right, batch_right, contract_right, columns);
  const int64_t m = a.sizes[a.sizes.size() - 2], k = a.sizes.back(), n = b.sizes.back();
  // The batch axes as two; three that no strides join are copied.
  Sizes batch(a.sizes.begin(), a.sizes.end() - 2);
  const auto with_batch = [&](const View& v, const Sizes& two) {
    return reshaped(v, {two[0], two[1], v.sizes[v.sizes.size() - 2], v.sizes.back()});
  };
  std::optional<View> a2, b2;
  Sizes two;
  for (size_t cut = 0; cut <= batch.size() && !(a2 && b2); ++cut) {
    two = {element_count(Sizes(batch.begin(), batch.begin() + static_cast<std::ptrdiff_t>(cut))),
           element_count(Sizes(batch.begin() + static_cast<std::ptrdiff_t>(cut), batch.end()))};
    a2 = with_batch(a, two);
    b2 = with_batch(b, two);
  }
  if (!a2 || !b2) {
    two = {1, element_count(batch)};
    a2 = with_batch(p.dense(a), two);
    b2 = with_batch(p.dense(b), two);
  }
  Gemm args;
  args.m = m;
  args.n = n;
  args.k = k;
  for (size_t i = 0; i < 2; ++i) {
    args.batch[i] = two[i];
    args.a_batch[i] = two[i] > 1 ? a2->strides[i] : 0;
    args.b_batch[i] = two[i] > 1 ? b2->strides[i] : 0;
  }
  args.a_row = a2->strides[2];
  args.a_col = a2->strides[3];
  args.b_row = b2->strides[2];
  args.b_col = b2->strides[3];
  args.c_row = n;
  args.c_batch[0] = two[1] * m * n;
  args.c_batch[1] = m * n;
  const View out = p.result(node.results[0]);
  const Kernels& kernel = kernels();
  const double work = static_cast<double>(two[0] * two[1]) * static_cast<double>(m * n) * static_cast<double>(k);
  add_kernel<Gemm>(p, {"gemm", work}, kernel.gemm, kernel.gemm_units, kernel.gemm_scratch, args,
                   {{offsetof(Gemm, a), *a2}, {offsetof(Gemm, b), *b2}}, {{offsetof(Gemm, c), out}});
  p.define(node.results[0], out);
  return true;
}

}  // namespace

std::vector<Lowering> product_lowerings() {
  return {{"linear", claims_linear, lower_linear}, {"dot_general", nullptr, lower_dot_general}};
}

}  // namespace pycandle::cpu
