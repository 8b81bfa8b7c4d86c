// ONNX's losses, and norms and activations that torch has no layer for.
#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

constexpr int64_t kNothingIgnored = -100;  // torch's; no class has a negative number

Attributes loss_attributes(AtenCall& c) {
  return {{"reduction", c.string("reduction")},
          {"ignore_index", c.is_none("ignore_index") ? kNothingIgnored : c.integer("ignore_index")}};
}

ValueId negative_log_likelihood(AtenCall& c) {
  const auto weight = c.maybe_tensor("weight");
  return c.b.create("nll_loss", {c.tensor("input"), c.b.cast(c.tensor("target"), DType::i64), weight.value_or(kNoValue)},
                    loss_attributes(c));
}

Values softmax_cross_entropy(AtenCall& c) {
  Builder& b = c.b;
  const auto weight = c.maybe_tensor("weights");
  const ValueId logs = b.create("log_softmax", {c.tensor("scores")}, {{"dim", int64_t{1}}});
  return {b.create("nll_loss", {logs, b.cast(c.tensor("labels"), DType::i64), weight.value_or(kNoValue)}, loss_attributes(c)),
          logs};
}

// x / (bias + alpha / size * sum of squares of the channels around)^beta
ValueId local_response(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X"), wide = b.widened(x);
  const int64_t size = c.integer("size"), rank = b.rank(x);
  c.expects(rank >= 2 && size > 0 && size < (1 << 20), "[N, C, …] and a positive size");
  Ints window(static_cast<size_t>(rank), 1), ones = window, low(window.size(), 0), high = low;
  window[1] = size;
  low[1] = (size - 1) / 2;
  high[1] = size - 1 - low[1];
  const ValueId sum = b.create("reduce_window", {b.square(wide)},
                               {{"kind", std::string("sum")},
                                {"window", window},
                                {"strides", ones},
                                {"dilation", ones},
                                {"padding_low", low},
                                {"padding_high", high}});
  const ValueId scale = b.pow(b.add(b.mul(sum, c.number("alpha") / static_cast<double>(size)), c.number("bias")),
                              c.number("beta"));
  return b.narrowed(b.div(wide, scale), b.dtype(x));
}

// Rows of zeros stay zeros.
ValueId normalised_by_length(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("input"), wide = b.widened(x);
  const int64_t p = c.integer("p"), axis = b.normal_axis(c.integer("axis"), b.rank(x));
  c.expects(p == 1 || p == 2, "p of 1 or 2");
  ValueId norm = p == 1 ? b.sum(b.abs(wide), {axis}) : b.sqrt(b.sum(b.square(wide), {axis}));
  norm = b.select(b.compare("eq", norm, 0.0), b.full(1.0, b.dtype(norm)), norm);
  return b.narrowed(b.div(wide, norm), b.dtype(x));
}

ValueId mean_and_variance_removed(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X"), wide = b.widened(x);
  Ints axes = c.integers("axes");
  for (int64_t& axis : axes) axis = b.normal_axis(axis, b.rank(x));
  const ValueId centred = b.sub(wide, b.mean(wide, axes));
  const ValueId deviation = b.sqrt(b.mean(b.square(centred), axes));
  return b.narrowed(b.div(centred, b.add(deviation, 1e-9)), b.dtype(x));
}

ValueId shrunk(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("input");
  const double lambda = c.number("lambd"), bias = c.number("bias");
  const ValueId zero = b.like(x, is_floating(b.dtype(x)) ? Scalar{0.0} : Scalar{int64_t{0}});
  return b.select(b.compare("lt", x, -lambda), b.add(x, bias), b.select(b.compare("gt", x, lambda), b.sub(x, bias), zero));
}

ValueId swish(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor(c.has_argument("x") ? "x" : "X");
  const double alpha = c.number("alpha");
  if (alpha == 1.0) return b.create("silu", {x});
  const ValueId wide = b.widened(x);
  return b.narrowed(b.mul(wide, sigmoid_value(b, b.mul(wide, alpha))), b.dtype(x));
}

ValueId hard_maximum(Builder& b, ValueId x, int64_t axis) {
  const ValueId place = b.create("argmax", {x}, {{"axis", axis}});
  const ValueId hit = b.compare("eq", along_axis(b, b.iota(b.shape(x)[axis]), axis, b.rank(x)), b.unsqueeze(place, axis));
  return b.cast(hit, b.dtype(x));
}

ValueId hardmax(AtenCall& c) {
  return hard_maximum(c.b, c.tensor("input"), c.b.normal_axis(c.integer("axis"), c.b.rank(c.tensor("input"))));
}

// Before opset 13 all axes from this one on were one.
ValueId hardmax_of_rest(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("input");
  const int64_t axis = b.normal_axis(c.integer("axis"), b.rank(x));
  const Shape shape = b.shape(x);
  const Shape flat{product(Shape(shape.begin(), shape.begin() + axis)), product(Shape(shape.begin() + axis, shape.end()))};
  return b.reshape(hard_maximum(b, b.reshape(x, flat), 1), shape);
}

// ---- com.microsoft: what graph optimisers put together

ValueId with_bias(AtenCall& c, const char* name, ValueId x) {
  const auto bias = c.maybe_tensor(name);
  return bias ? c.b.add(x, *bias) : x;
}

ValueId fast_gelu(AtenCall& c) {
  return c.b.create("gelu", {with_bias(c, "bias", c.tensor("x"))}, {{"approximate", std::string("tanh")}});
}
ValueId bias_gelu(AtenCall& c) {
  return c.b.create("gelu", {c.b.add(c.tensor("a"), c.tensor("b"))}, {{"approximate", std::string("none")}});
}

Dims last_size(Builder& b, ValueId x) { return {b.shape(x).back()}; }

// The sum is an output too, the last one.
Values skip_norm(AtenCall& c) {
  Builder& b = c.b;
  const ValueId sum = with_bias(c, "bias", b.add(c.tensor("input"), c.tensor("skip")));
  const auto beta = c.has_argument("beta") ? c.maybe_tensor("beta") : std::nullopt;
  const ValueId y = b.create("layer_norm", {sum, c.tensor("gamma"), beta.value_or(kNoValue)},
                             {{"normalized_shape", last_size(b, sum)}, {"eps", c.number("epsilon")}});
  return {y, kNoValue, kNoValue, sum};
}
Values skip_rms_norm(AtenCall& c) {
  Builder& b = c.b;
  const ValueId sum = with_bias(c, "bias", b.add(c.tensor("input"), c.tensor("skip")));
  return {b.create("rms_norm", {sum, c.tensor("gamma")}, {{"normalized_shape", last_size(b, sum)}, {"eps", c.number("epsilon")}}),
          kNoValue, kNoValue, sum};
}
ValueId simplified_norm(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("X");
  c.expects(c.integer("stash_type") == 1 && b.normal_axis(c.integer("axis"), b.rank(x)) == b.rank(x) - 1,
            "the last axis, in float");
  return b.create("rms_norm", {x, c.tensor("scale")}, {{"normalized_shape", last_size(b, x)}, {"eps", c.number("epsilon")}});
}

ValueId fused_product(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor("A"), y = c.tensor("B");
  if (c.integer("transBatchA") != 0 || c.integer("transBatchB") != 0) c.unsupported("transBatchA or transBatchB");
  if (c.integer("transA") != 0) x = b.swap_axes(x, -1, -2);
  if (c.integer("transB") != 0) y = b.swap_axes(y, -1, -2);
  const ValueId product = b.create("matmul", {x, y});
  const double alpha = c.number("alpha");
  return alpha == 1.0 ? product : b.mul(product, alpha);
}

std::vector<OpDef> microsoft() {
  return {onnx_mapped("gelu", {"onnx.com.microsoft.Gelu.1(x)"},
                      [](AtenCall& c) { return c.b.create("gelu", {c.tensor("x")}, {{"approximate", std::string("none")}}); }),
          onnx_mapped("gelu", {"onnx.com.microsoft.FastGelu.1(x, bias?)"}, fast_gelu),
          onnx_mapped("gelu", {"onnx.com.microsoft.BiasGelu.1(a, b)"}, bias_gelu),
          onnx_mapped("silu", {"onnx.com.microsoft.QuickGelu.1(x; alpha=1.702)"}, swish),
          onnx_mapped_all("layer_norm",
                          {"onnx.com.microsoft.SkipLayerNormalization.1(input, skip, gamma, beta?, bias?; epsilon=1e-12)"},
                          skip_norm),
          onnx_mapped_all("rms_norm",
                          {"onnx.com.microsoft.SkipSimplifiedLayerNormalization.1(input, skip, gamma, bias?; epsilon=1e-12)"},
                          skip_rms_norm),
          onnx_mapped("rms_norm", {"onnx.SimplifiedLayerNormalization.1(X, scale; axis=-1, epsilon=1e-5, stash_type=1)"},
                      simplified_norm),
          onnx_mapped("matmul",
                      {"onnx.com.microsoft.FusedMatMul.1(A, B; alpha=1.0, transA=0, transB=0, transBatchA=0, transBatchB=0)"},
                      fused_product)};
}

}  // namespace

std::vector<OpDef> loss_onnx_ops() {
  std::vector<OpDef> all{
      onnx_mapped("nll_loss",
                  {"onnx.NegativeLogLikelihoodLoss.12(input, target, weight?; ignore_index=none, reduction=\"mean\")"},
                  negative_log_likelihood),
      onnx_mapped_all("nll_loss",
                      {"onnx.SoftmaxCrossEntropyLoss.12(scores, labels, weights?; ignore_index=none, reduction=\"mean\")"},
                      softmax_cross_entropy),
      onnx_mapped("reduce_window", {"onnx.LRN.1(X; alpha=1e-4, beta=0.75, bias=1.0, size!)"}, local_response),
      onnx_mapped("div", {"onnx.LpNormalization.1(input; axis=-1, p=2)"}, normalised_by_length),
      onnx_mapped("div", {"onnx.MeanVarianceNormalization.9(X; axes=[0, 2, 3])"}, mean_and_variance_removed),
      onnx_mapped("select", {"onnx.Shrink.9(input; bias=0.0, lambd=0.5)"}, shrunk),
      onnx_mapped("silu", {"onnx.Swish.24(X; alpha=1.0)"}, swish),
      onnx_mapped("argmax", {"onnx.Hardmax.13(input; axis=-1)"}, hardmax),
      onnx_mapped("argmax", {"onnx.Hardmax.1(input; axis=1)"}, hardmax_of_rest)};
  for (OpDef& each : microsoft()) all.push_back(std::move(each));
  return all;
}

}  // namespace pycandle
