// Many elements to one, and matrix products.
#include <algorithm>
#include <limits>

#include "emit/onnx/complex_pairs.h"
#include "emit/onnx/forms.h"
#include "emit/onnx/kernels.h"

namespace pycandle::emit::onnx {
namespace {

std::string reduced(const Site& s, const char* op, const std::string& x, DType d, const Ints& axes, bool keep) {
  if (axes.empty()) return x;
  return s.w.run(op, {x, s.w.ints(axes)}, d, {{"keepdims", int64_t{keep ? 1 : 0}}});
}
template <const char* const& op> Names reduce(const Site& s) {
  return {reduced(s, op, s["x"], s.dtype("x"), s.c.integers("axes"), false)};
}
constexpr const char *kSum = "ReduceSum", *kProd = "ReduceProd", *kMax = "ReduceMax", *kMin = "ReduceMin";
constexpr const char *kArgMax = "ArgMax", *kArgMin = "ArgMin", *kCumSum = "CumSum", *kCumProd = "CumProd";

Names mean(const Site& s) { return {reduced(s, "ReduceMean", s["x"], s.dtype("x"), s.c.integers("axes"), s.c.boolean("keep"))}; }
bool means_floats(const Call& c) {
  const Ints& axes = c.integers("axes");
  return is_floating(c.type("x").dtype) && !axes.empty() && c.type("x").dtype != DType::f16;
}

template <const char* const& op> Names arg_extreme(const Site& s) {
  return {s.w.run(op, {s["x"]}, s.dtype("x"), {{"axis", s.c.integer("axis")}, {"keepdims", int64_t{0}}}, false)};
}

template <const char* const& op> Names running(const Site& s) {
  return {s.w.run(op, {s["x"], s.w.scalar(s.c.integer("axis"), DType::i64)}, s.dtype("x"))};
}

Names first_elements(const Site& s, Dim count, bool largest, bool sorted) {
  const DType d = s.dtype("x"), kernel = kernel_dtype("TopK", d == DType::boolean ? DType::u8 : d);
  const Names found = s.w.nodes(
      "TopK", {s.w.cast(s["x"], d, kernel), s.w.dim(count)},
      {{"axis", s.c.integer("axis")}, {"largest", int64_t{largest ? 1 : 0}}, {"sorted", int64_t{sorted ? 1 : 0}}}, 2);
  return {s.w.cast(found[0], kernel, d), found[1]};
}
Names sort(const Site& s) {
  return first_elements(s, s.c.shape("x")[static_cast<size_t>(s.c.integer("axis"))], s.c.boolean("descending"), true);
}
Names topk(const Site& s) { return first_elements(s, s.c.dim("k"), s.c.boolean("largest"), true); }

// ---- products

// One operand of a product as a stack of matrices.
struct Side {
  std::string x;
  Shape batch, rest, contracted;
};
Side side(const Site& s, const char* name, const Ints& batch, const Ints& contract, bool is_left) {
  const Shape& shape = s.c.shape(name);
  Side found;
  Ints rest;
  for (int64_t a = 0; a < s.c.rank(name); ++a) {
    const auto among = [&](const Ints& axes) { return std::find(axes.begin(), axes.end(), a) != axes.end(); };
    if (among(batch) || among(contract)) continue;
    rest.push_back(a);
    found.rest.push_back(shape[a]);
  }
  for (const int64_t a : batch) found.batch.push_back(shape[a]);
  for (const int64_t a : contract) found.contracted.push_back(shape[a]);
  Ints order = batch;
  for (const Ints& more : is_left ? std::vector<Ints>{rest, contract} : std::vector<Ints>{contract, rest})
    order.insert(order.end(), more.begin(), more.end());
  found.x = s.w.transpose(s[name], order);
  if (rest.size() == 1 && contract.size() == 1) return found;
  Shape from = found.batch, to = found.batch;
  const auto append = [&](const Shape& sizes) {
    from.insert(from.end(), sizes.begin(), sizes.end());
    to.push_back(product(sizes));
  };
  append(is_left ? found.rest : found.contracted);
  append(is_left ? found.contracted : found.rest);
  if (is_left && batch.empty() && contract.size() == 1 && !rest.empty()) return found;  // MatMul takes [..., k] [k, n]
  found.x = s.w.reshape(found.x, from, to);
  return found;
}
Names dot_general(const Site& s) {
  const Side left = side(s, "left", s.c.integers("batch_left"), s.c.integers("contract_left"), true);
  const Side right = side(s, "right", s.c.integers("batch_right"), s.c.integers("contract_right"), false);
  std::string y = s.w.run("MatMul", {left.x, right.x}, s.dtype("left"));
  const bool is_done = right.rest.size() == 1 &&
                       (left.rest.size() == 1 || (left.batch.empty() && !left.rest.empty() && left.contracted.size() == 1));
  return {is_done ? y : s.w.reshape(y, {}, s.result().shape)};
}

Names matmul(const Site& s) { return {s.w.run("MatMul", {s["left"], s["right"]}, s.dtype("left"))}; }
bool are_matrices(const Call& c) { return is_real(c) && c.type("left").dtype != DType::boolean; }

Names linear(const Site& s) {
  GraphWriter& w = s.w;
  const DType d = s.dtype("x"), kernel = kernel_dtype("MatMul", d);
  const auto in = [&](const char* name) { return w.cast(s[name], d, kernel); };
  const bool is_in_out = s.c.string("weight_order") == "in_out";
  const bool has_bias = s.c.has("bias");
  if (s.c.rank("x") == 2 && is_floating(d)) {
    Names inputs{in("x"), in("weight")};
    if (has_bias) inputs.push_back(in("bias"));
    return {w.cast(w.node("Gemm", inputs, {{"transB", int64_t{is_in_out ? 0 : 1}}}), kernel, d)};
  }
  std::string weight = in("weight");
  if (!is_in_out) weight = w.node("Transpose", {weight}, {{"perm", Ints{1, 0}}});
  std::string y = w.node("MatMul", {in("x"), weight});
  if (has_bias) y = w.run("Add", {y, in("bias")}, kernel);
  return {w.cast(y, kernel, d)};
}
bool has_matrix(const Call& c) { return is_real(c) && c.rank("weight") == 2; }

Names addmm(const Site& s) {
  const auto factor = [&](const char* name) { return as_double(s.c.scalar(name)); };
  return {s.w.run("Gemm", {s["left"], s["right"], s["x"]}, s.dtype("x"), {{"alpha", factor("alpha")}, {"beta", factor("beta")}})};
}
bool are_floats(const Call& c) { return is_floating(c.type("x").dtype); }

// At least one axis stands before the one that is transformed and the pairs.
Names dft(const Site& s) {
  const int64_t axis = s.c.integer("axis");
  const bool is_alone = s.c.rank("x") == 2;
  const std::string x = is_alone ? s.w.unsqueeze(s["x"], {0}) : s["x"];
  const std::string y = s.w.node("DFT", {x, "", s.w.scalar(axis + (is_alone ? 1 : 0), DType::i64)},
                                 {{"inverse", int64_t{s.c.boolean("inverse") ? 1 : 0}}, {"onesided", int64_t{0}}});
  return {is_alone ? s.w.squeeze(y, {0}) : y};
}

// The rows of each expert are a slice, whose ends are data.
Names grouped_matmul(const Site& s) {
  GraphWriter& w = s.w;
  const DType d = s.dtype("x"), kernel = kernel_dtype("MatMul", d);
  const std::string x = w.cast(s["x"], d, kernel), weight = w.cast(s["weight"], d, kernel);
  const std::string ends = w.cast(s["ends"], s.dtype("ends"), DType::i64);
  const int64_t groups = s.c.shape("ends")[0].number();
  const std::string last = w.ints({std::numeric_limits<int64_t>::max()}), axis = w.ints({0});
  std::string start = w.ints({0});
  Names parts;
  for (int64_t e = 0; e < groups; ++e) {
    const std::string end = w.node("Slice", {ends, w.ints({e}), w.ints({e + 1}), axis});
    const std::string matrix = w.node("Gather", {weight, w.scalar(e, DType::i64)}, {{"axis", int64_t{0}}});
    parts.push_back(w.node("MatMul", {w.node("Slice", {x, start, end, axis}), matrix}));
    start = end;
  }
  const std::string rest = w.node("Shape", {w.node("Slice", {x, start, last, axis})}, {{"end", int64_t{1}}});
  const std::string width = w.node("Shape", {weight}, {{"start", int64_t{2}}});
  const std::string zeros = w.node("Expand", {w.scalar(0.0, kernel), w.node("Concat", {rest, width}, {{"axis", int64_t{0}}})});
  parts.push_back(zeros);
  return {w.cast(w.node("Concat", parts, {{"axis", int64_t{0}}}), kernel, d)};
}
bool has_counted_groups(const Call& c) { return c.shape("ends")[0].is_number() && is_floating(c.type("x").dtype); }

constexpr Form kForms[] = {
    {kDftOfPairs, dft},
    {"grouped_matmul", grouped_matmul, has_counted_groups},
    {"reduce_sum", reduce<kSum>, is_real},
    {"reduce_prod", reduce<kProd>, is_real},
    {"reduce_max", reduce<kMax>},
    {"reduce_min", reduce<kMin>},
    {"reduce_and", reduce<kMin>},
    {"reduce_or", reduce<kMax>},
    {"mean", mean, means_floats},
    {"argmax", arg_extreme<kArgMax>},
    {"argmin", arg_extreme<kArgMin>},
    {"cumsum", running<kCumSum>, is_real},
    {"cumprod", running<kCumProd>, is_real, 26},
    {"sort", sort},
    {"topk", topk},
    {"dot_general", dot_general, are_matrices},
    {"matmul", matmul, are_matrices},
    {"linear", linear, has_matrix},
    {"addmm", addmm, are_floats},
};

}  // namespace

std::span<const Form> reduction_forms() { return kForms; }

}  // namespace pycandle::emit::onnx
