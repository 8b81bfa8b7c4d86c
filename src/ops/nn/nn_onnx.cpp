// ONNX's neural-network operators.
#include <algorithm>
#include <limits>

#include "ops/core/aten_call.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

using Formula = ValueId (*)(AtenCall&);

OpDef mapped(const char* op, std::initializer_list<const char*> overloads, Formula f) {
  OpDef def = mapping(op);
  for (const char* overload : overloads) def.from_aten_call(overload, [f](AtenCall& c) -> Values { return {f(c)}; });
  return def;
}

// ---- activations: f16 and bf16 as our functionals compute them

// alpha and beta of HardSigmoid are torch's 1/6 and 1/2 where torch exported it.
ValueId hard_sigmoid(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  const double alpha = c.number("alpha"), beta = c.number("beta");
  if (std::abs(alpha - 1.0 / 6) < 1e-7 && beta == 0.5) return b.create("hardsigmoid", {x});
  const ValueId line = b.add(b.mul(b.widened(x), alpha), beta);
  return b.narrowed(b.minimum(b.maximum(line, 0.0), 1.0), b.dtype(x));
}

ValueId gelu(AtenCall& c) { return c.b.create("gelu", {c.tensor("x")}, {{"approximate", c.string("approximate")}}); }

ValueId elu(AtenCall& c) { return c.b.create("elu", {c.tensor("x")}, {{"alpha", c.number("alpha")}}); }

ValueId selu(AtenCall& c) {
  return c.b.create("elu", {c.tensor("x")}, {{"alpha", c.number("alpha")}, {"scale", c.number("gamma")}});
}

ValueId celu(AtenCall& c) {
  const double alpha = c.number("alpha");
  c.expects(alpha != 0, "an alpha that is not 0");
  return c.b.create("elu", {c.tensor("x")}, {{"alpha", alpha}, {"input_scale", 1 / alpha}});
}

ValueId leaky_relu(AtenCall& c) { return c.b.create("leaky_relu", {c.tensor("x")}, {{"negative_slope", c.number("alpha")}}); }

ValueId thresholded(AtenCall& c) {
  const ValueId x = c.tensor("x");
  return c.b.create("threshold", {x}, {{"threshold", c.number("alpha")}, {"value", 0.0}});
}

// The slope broadcasts to x; a slope for each channel stands behind the batch.
ValueId prelu(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x"), slope = c.tensor("slope");
  return b.select(b.compare("lt", x, 0.0), b.mul(x, slope), x);
}

ValueId softmax_of(AtenCall& c, const char* op) {
  const ValueId x = c.tensor("x");
  return c.b.create(op, {x}, {{"dim", c.b.normal_axis(c.integer("axis"), std::max<int64_t>(c.b.rank(x), 1))}});
}

// Before opset 13 all axes from this one on were one.
ValueId softmax_of_rest(AtenCall& c, const char* op) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  const int64_t axis = b.normal_axis(c.integer("axis"), b.rank(x));
  if (axis == b.rank(x) - 1) return b.create(op, {x}, {{"dim", axis}});
  const Shape shape = b.shape(x);
  Shape flat(shape.begin(), shape.begin() + axis);
  flat.push_back(product(Shape(shape.begin() + axis, shape.end())));
  return b.reshape(b.create(op, {b.reshape(x, flat)}, {{"dim", axis}}), shape);
}

// ---- norms

// x - mean and so on over the axes from `axis` on; mean and 1 / deviation are outputs that exporters leave out.
Values layer_norm(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  if (c.integer("stash_type") != 1) c.unsupported("stash_type other than float");
  if (c.result_count() > 1) c.unsupported("its mean and deviation as outputs");
  const int64_t axis = b.normal_axis(c.integer("axis"), b.rank(x));
  const Shape shape = b.shape(x);
  const auto bias = c.maybe_tensor("bias");
  return b.create_all("layer_norm", {x, c.tensor("scale"), bias ? *bias : kNoValue},
                      {{"normalized_shape", Dims(shape.begin() + axis, shape.end())}, {"eps", c.number("epsilon")}});
}

Values rms_norm(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  if (c.integer("stash_type") != 1) c.unsupported("stash_type other than float");
  const int64_t axis = b.normal_axis(c.integer("axis"), b.rank(x));
  const Shape shape = b.shape(x);
  return b.create_all("rms_norm", {x, c.tensor("scale")},
                      {{"normalized_shape", Dims(shape.begin() + axis, shape.end())}, {"eps", c.number("epsilon")}});
}

Values batch_norm(AtenCall& c) {
  c.discard("momentum", "only of training");
  if (c.has_argument("training_mode") && c.integer("training_mode") != 0) c.unsupported("training_mode");
  if (c.has_argument("spatial") && c.integer("spatial") != 1) c.unsupported("spatial=0");
  if (c.result_count() > 1) c.unsupported("its running values as outputs");
  return {c.b.create("batch_norm", {c.tensor("x"), c.tensor("mean"), c.tensor("var"), c.tensor("scale"), c.tensor("bias")},
                     {{"eps", c.number("epsilon")}})};
}

Values instance_norm(AtenCall& c) {
  return c.b.create_all("instance_norm", {c.tensor("x"), c.tensor("scale"), c.tensor("bias")}, {{"eps", c.number("epsilon")}});
}

Values group_norm(AtenCall& c) {
  if (c.integer("stash_type") != 1) c.unsupported("stash_type other than float");
  return c.b.create_all("group_norm", {c.tensor("x"), c.tensor("scale"), c.tensor("bias")},
                        {{"groups", c.integer("num_groups")}, {"eps", c.number("epsilon")}});
}

// ---- convolutions and pools

struct Window {
  Ints kernel, strides, dilation, low, high;
};

// auto_pad SAME: as many positions as x has, divided by the stride; the odd one goes to the end (UPPER) or the start.
void pad_to_same(AtenCall& c, Window& w, const Shape& positions, bool upper) {
  for (size_t i = 0; i < w.kernel.size(); ++i) {
    const auto size = positions[i].maybe_number();
    if (!size && w.strides[i] != 1) c.unsupported("auto_pad of an axis whose size is open, with a stride");
    const int64_t reach = (w.kernel[i] - 1) * w.dilation[i] + 1;
    const int64_t total = size ? std::max<int64_t>(((*size + w.strides[i] - 1) / w.strides[i] - 1) * w.strides[i] + reach - *size,
                                                   0)
                               : reach - 1;
    w.low[i] = upper ? total / 2 : total - total / 2;
    w.high[i] = total - w.low[i];
  }
}

Window window_of(AtenCall& c, const Shape& positions, const Ints& kernel) {
  const size_t n = positions.size();
  Window w{kernel, Ints(n, 1), Ints(n, 1), Ints(n, 0), Ints(n, 0)};
  if (const auto strides = c.maybe_integers("strides")) w.strides = *strides;
  if (c.has_argument("dilations"))
    if (const auto dilations = c.maybe_integers("dilations")) w.dilation = *dilations;
  const auto pads = c.maybe_integers("pads");
  const std::string automatic = c.string("auto_pad");
  c.expects(w.kernel.size() == n && w.strides.size() == n && w.dilation.size() == n && (!pads || pads->size() == 2 * n),
            "a kernel, stride and dilation for each position axis, and two pads");
  c.expects(positive_and_sane(w.kernel) && positive_and_sane(w.strides) && positive_and_sane(w.dilation),
            "positive kernels, strides and dilations");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    pad_to_same(c, w, positions, automatic == "SAME_UPPER");
  } else if (automatic == "NOTSET") {
    for (size_t i = 0; pads && i < n; ++i) {
      w.low[i] = pads->at(i);
      w.high[i] = pads->at(n + i);
      c.expects(w.low[i] >= 0 && w.high[i] >= 0 && w.low[i] < (1 << 30) && w.high[i] < (1 << 30), "pads of 0 or more");
    }
  } else if (automatic != "VALID") {
    c.unsupported("auto_pad='" + automatic + "'");
  }
  return w;
}

Shape positions_of(AtenCall& c, ValueId x) {
  const Shape& shape = c.b.shape(x);
  c.expects(shape.size() >= 3 && shape.size() <= 5, "[N, C, positions…] with one to three position axes");
  return {shape.begin() + 2, shape.end()};
}

// x with what the two sides of an axis are padded by differently in front.
ValueId padded(Builder& b, ValueId x, Window& w, const Scalar& value) {
  if (w.low == w.high) return x;
  Dims low{0, 0}, high{0, 0};
  low.insert(low.end(), w.low.begin(), w.low.end());
  high.insert(high.end(), w.high.begin(), w.high.end());
  std::fill(w.low.begin(), w.low.end(), 0);
  w.high = w.low;
  return b.pad(x, low, high, value);
}

Ints kernel_of(AtenCall& c, ValueId weight) {
  Ints kernel;
  const Shape& shape = c.b.shape(weight);
  for (size_t i = 2; i < shape.size(); ++i) {
    c.expects(shape[i].is_number(), "a kernel of known size");
    kernel.push_back(shape[i].number());
  }
  if (const auto given = c.maybe_integers("kernel_shape")) c.expects(*given == kernel, "a kernel_shape that is the weight's");
  return kernel;
}

Values convolution(AtenCall& c) {
  ValueId x = c.tensor("x");
  const ValueId weight = c.tensor("w");
  Window w = window_of(c, positions_of(c, x), kernel_of(c, weight));
  const auto bias = c.maybe_tensor("b");
  x = padded(c.b, x, w, 0.0);
  return c.b.create_all("conv" + std::to_string(w.kernel.size()) + "d", {x, weight, bias ? *bias : kNoValue},
                        {{"stride", w.strides}, {"padding", w.low}, {"dilation", w.dilation}, {"groups", c.integer("group")}});
}

Values transposed_convolution(AtenCall& c) {
  const ValueId x = c.tensor("x"), weight = c.tensor("w");
  const Window w = window_of(c, positions_of(c, x), kernel_of(c, weight));
  if (c.string("auto_pad") != "NOTSET") c.unsupported("auto_pad");
  if (!c.is_none("output_shape")) c.unsupported("output_shape");
  if (w.low != w.high) c.unsupported("pads that differ at the two ends of an axis");
  Ints extra(w.kernel.size(), 0);
  if (const auto given = c.maybe_integers("output_padding")) extra = *given;
  const auto bias = c.maybe_tensor("b");
  return c.b.create_all("conv_transpose" + std::to_string(w.kernel.size()) + "d", {x, weight, bias ? *bias : kNoValue},
                        {{"stride", w.strides},
                         {"padding", w.low},
                         {"output_padding", extra},
                         {"dilation", w.dilation},
                         {"groups", c.integer("group")}});
}

bool rounds_up(AtenCall& c) { return c.has_argument("ceil_mode") && c.integer("ceil_mode") != 0; }

Values max_pool(AtenCall& c) {
  ValueId x = c.tensor("x");
  if (c.has_argument("storage_order") && c.integer("storage_order") != 0) c.unsupported("storage_order=1");
  if (c.result_count() > 1) c.unsupported("the indices as an output");
  Window w = window_of(c, positions_of(c, x), c.integers("kernel_shape"));
  const bool ceil_mode = rounds_up(c);
  if (ceil_mode && w.low != w.high) c.unsupported("ceil_mode and pads that differ at the two ends of an axis");
  x = padded(c.b, x, w, lowest_of(c.b.dtype(x)));
  return c.b.create_all(
      "max_pool" + std::to_string(w.kernel.size()) + "d", {x},
      {{"kernel_size", w.kernel}, {"stride", w.strides}, {"padding", w.low}, {"dilation", w.dilation}, {"ceil_mode", ceil_mode}});
}

Values average_pool(AtenCall& c) {
  ValueId x = c.tensor("x");
  const bool counts = c.integer("count_include_pad") != 0;
  Window w = window_of(c, positions_of(c, x), c.integers("kernel_shape"));
  if (w.dilation != Ints(w.kernel.size(), 1)) c.unsupported("dilations");
  const bool ceil_mode = rounds_up(c);
  if (w.low != w.high && (!counts || ceil_mode)) c.unsupported("pads that differ at the two ends of an axis and do not count");
  x = padded(c.b, x, w, 0.0);
  return c.b.create_all("avg_pool" + std::to_string(w.kernel.size()) + "d", {x},
                        {{"kernel_size", w.kernel},
                         {"stride", w.strides},
                         {"padding", w.low},
                         {"ceil_mode", ceil_mode},
                         {"count_include_pad", counts}});
}

ValueId global_average(AtenCall& c) {
  const ValueId x = c.tensor("x");
  const size_t n = positions_of(c, x).size();
  return c.b.create("adaptive_avg_pool" + std::to_string(n) + "d", {x}, {{"output_size", Dims(n, Dim(1))}});
}

ValueId global_max(AtenCall& c) {
  const ValueId x = c.tensor("x");
  return c.b.max(x, last_axes(c.b.rank(x), positions_of(c, x).size()));
}

// In inference nothing is dropped.
Values dropout(AtenCall& c) {
  if (c.has_argument("seed")) c.discard("seed", "only of training");
  c.discard("ratio", "only of training");
  if (c.has_argument("training_mode")) {
    const auto training = c.maybe_scalar("training_mode");
    if (training && as_int(*training) != 0) c.unsupported("training_mode");
  }
  const ValueId x = c.tensor("x");
  if (c.result_count() < 2) return {x};
  return {x, c.b.full(true, DType::boolean, c.b.shape(x))};
}

ValueId one_hot(AtenCall& c) {
  Builder& b = c.b;
  ValueId indices = c.tensor("indices");
  const ValueId values = c.tensor("values");
  const Dims depth = c.dims("depth");
  c.expects(depth.size() == 1 && b.rank(values) == 1, "one depth, and two values");
  const int64_t rank = b.rank(indices) + 1, axis = b.normal_axis(c.integer("axis"), rank);
  indices = b.cast(indices, DType::i64);
  indices = b.select(b.compare("lt", indices, 0.0), b.add(indices, b.dim_value(depth[0])), indices);
  const ValueId places = along_axis(b, b.iota(depth[0]), axis, rank);
  const ValueId hit = b.compare("eq", b.unsqueeze(indices, axis), places);
  return b.select(hit, b.select_index(values, 0, 1), b.select_index(values, 0, 0));
}

#define WINDOW "; auto_pad=\"NOTSET\", kernel_shape!, pads=none, strides=none"
#define CONVOLUTION "; auto_pad=\"NOTSET\", dilations=none, group=1, kernel_shape=none, pads=none, strides=none"

std::vector<OpDef> windows() {
  return {mapping("conv2d").from_aten_call("onnx.Conv.1(x, w, b?" CONVOLUTION ")", convolution),
          mapping("conv_transpose2d")
              .from_aten_call("onnx.ConvTranspose.1(x, w, b?" CONVOLUTION ", output_padding=none, output_shape=none)",
                              transposed_convolution),
          mapping("max_pool2d")
              .from_aten_call("onnx.MaxPool.1(x" WINDOW ")", max_pool)
              .from_aten_call("onnx.MaxPool.8(x" WINDOW ", storage_order=0)", max_pool)
              .from_aten_call("onnx.MaxPool.10(x" WINDOW ", storage_order=0, ceil_mode=0, dilations=none)", max_pool),
          mapping("avg_pool2d")
              .from_aten_call("onnx.AveragePool.7(x" WINDOW ", count_include_pad=0)", average_pool)
              .from_aten_call("onnx.AveragePool.10(x" WINDOW ", count_include_pad=0, ceil_mode=0)", average_pool)
              .from_aten_call("onnx.AveragePool.19(x" WINDOW ", count_include_pad=0, ceil_mode=0, dilations=none)", average_pool),
          mapped("adaptive_avg_pool2d", {"onnx.GlobalAveragePool.1(x)"}, global_average),
          mapped("adaptive_max_pool2d", {"onnx.GlobalMaxPool.1(x)"}, global_max)};
}

#undef WINDOW
#undef CONVOLUTION

std::vector<OpDef> norms() {
  return {
      mapping("layer_norm")
          .from_aten_call("onnx.LayerNormalization.17(x, scale, bias?; axis=-1, epsilon=1e-5, stash_type=1)", layer_norm),
      mapping("rms_norm").from_aten_call("onnx.RMSNormalization.23(x, scale; axis=-1, epsilon=1e-5, stash_type=1)", rms_norm),
      mapping("batch_norm")
          .from_aten_call("onnx.BatchNormalization.7(x, scale, bias, mean, var; epsilon=1e-5, momentum=0.9, spatial=1)",
                          batch_norm)
          .from_aten_call("onnx.BatchNormalization.9(x, scale, bias, mean, var; epsilon=1e-5, momentum=0.9)", batch_norm)
          .from_aten_call("onnx.BatchNormalization.14(x, scale, bias, mean, var; epsilon=1e-5, momentum=0.9, training_mode=0)",
                          batch_norm),
      mapping("instance_norm").from_aten_call("onnx.InstanceNormalization.6(x, scale, bias; epsilon=1e-5)", instance_norm),
      mapping("group_norm")
          .from_aten_call("onnx.GroupNormalization.21(x, scale, bias; epsilon=1e-5, num_groups!, stash_type=1)", group_norm)};
}

}  // namespace

std::vector<OpDef> nn_onnx_ops() {
  std::vector<OpDef> all{
      mapping("relu").from_aten("onnx.Relu.6(x)"),
      mapping("sigmoid").from_aten("onnx.Sigmoid.6(x)"),
      mapping("softplus").from_aten("onnx.Softplus.1(x)"),
      mapping("hardswish").from_aten("onnx.HardSwish.14(x)"),
      mapping("mish").from_aten("onnx.Mish.18(x)"),
      mapped("hardsigmoid", {"onnx.HardSigmoid.6(x; alpha=0.2, beta=0.5)"}, hard_sigmoid),
      mapped("gelu", {"onnx.Gelu.20(x; approximate=\"none\")"}, gelu),
      mapped("elu", {"onnx.Elu.6(x; alpha=1.0)"}, elu),
      mapped("elu", {"onnx.Selu.6(x; alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)"}, selu),
      mapped("elu", {"onnx.Celu.12(x; alpha=1.0)"}, celu),
      mapped("leaky_relu", {"onnx.LeakyRelu.6(x; alpha=0.01)"}, leaky_relu),
      mapped("threshold", {"onnx.ThresholdedRelu.10(x; alpha=1.0)"}, thresholded),
      mapped("prelu", {"onnx.PRelu.7(x, slope)"}, prelu),
      mapped("softmax", {"onnx.Softmax.1(x; axis=1)"}, [](AtenCall& c) { return softmax_of_rest(c, "softmax"); }),
      mapped("softmax", {"onnx.Softmax.13(x; axis=-1)"}, [](AtenCall& c) { return softmax_of(c, "softmax"); }),
      mapped("log_softmax", {"onnx.LogSoftmax.1(x; axis=1)"}, [](AtenCall& c) { return softmax_of_rest(c, "log_softmax"); }),
      mapped("log_softmax", {"onnx.LogSoftmax.13(x; axis=-1)"}, [](AtenCall& c) { return softmax_of(c, "log_softmax"); }),
      mapped("one_hot", {"onnx.OneHot.11(indices, depth#, values; axis=-1)"}, one_hot),
      mapping("dropout")
          .from_aten_call("onnx.Dropout.7(x; ratio=0.5)", dropout)
          .from_aten_call("onnx.Dropout.12(x, ratio?, training_mode#?; seed=none)", dropout)};
  for (std::vector<OpDef> more : {windows(), norms()}) std::move(more.begin(), more.end(), std::back_inserter(all));
  return all;
}

}  // namespace pycandle
