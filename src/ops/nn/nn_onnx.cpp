// ONNX's activations, norms and what is left of training.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "ops/core/onnx_helpers.h"

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

// Before opset 7 a slope was one number, or one for each channel.
ValueId prelu_of_channels(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x");
  ValueId slope = c.tensor("slope");
  if (b.rank(slope) == 1 && b.rank(x) > 1)
    slope = b.shape(slope)[0] == Dim(1) ? b.reshape(slope, {}) : along_axis(b, slope, 1, b.rank(x));
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
  const int64_t axis = b.normal_axis(c.integer("axis"), b.rank(x));
  const Shape shape = b.shape(x);
  const auto bias = c.maybe_tensor("bias");
  if (c.result_count() > 1) {  // the mean and 1 / deviation too
    const Ints axes = axes_between(axis, b.rank(x));
    const ValueId wide = b.widened(x), mean = b.mean(wide, axes), centred = b.sub(wide, mean);
    const ValueId inverse = b.rsqrt(b.add(b.mean(b.square(centred), axes), c.number("epsilon")));
    ValueId y = b.mul(b.narrowed(b.mul(centred, inverse), b.dtype(x)), c.tensor("scale"));
    if (bias) y = b.add(y, *bias);
    return {y, mean, inverse};
  }
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

// By the batch's own mean and variance, which also move the running ones.
Values batch_norm_in_training(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("x"), wide = b.widened(x);
  const double keeps = c.number("momentum");
  Ints axes{0};
  for (int64_t axis = 2; axis < b.rank(x); ++axis) axes.push_back(axis);
  const ValueId mean = b.mean(wide, axes), centred = b.sub(wide, mean), variance = b.mean(b.square(centred), axes);
  const auto channels = [&](const char* name) { return along_axis(b, b.widened(c.tensor(name)), 1, b.rank(x)); };
  const ValueId normal = b.mul(centred, b.rsqrt(b.add(variance, c.number("epsilon"))));
  const ValueId y = b.add(b.mul(normal, channels("scale")), channels("bias"));
  const auto moved = [&](const char* name, ValueId now) {
    const ValueId before = c.tensor(name);
    const ValueId flat = b.cast(b.reshape(now, b.shape(before)), b.dtype(before));
    return b.add(b.mul(before, keeps), b.mul(flat, 1 - keeps));
  };
  return {b.narrowed(y, b.dtype(x)), moved("mean", mean), moved("var", variance)};
}

Values batch_norm(AtenCall& c) {
  if (c.has_argument("spatial") && c.integer("spatial") != 1) c.unsupported("spatial=0");
  if (c.has_argument("is_test")) c.expects(c.integer("is_test") != 0 || c.result_count() == 1, "is_test = 1");
  if (c.has_argument("training_mode") && c.integer("training_mode") != 0) return batch_norm_in_training(c);
  c.discard("momentum", "only of training");
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

// In inference nothing is dropped.
Values dropout(AtenCall& c) {
  Builder& b = c.b;
  if (c.has_argument("seed")) c.discard("seed", "of another generator");
  const Numbers given = c.has_argument("training_mode") ? c.numbers("ratio") : Numbers{c.number("ratio")};
  const double p = given.empty() ? 0.5 : given[0];
  bool trains = false;
  if (c.has_argument("training_mode"))
    if (const auto training = c.maybe_scalar("training_mode")) trains = as_int(*training) != 0;
  const ValueId x = c.tensor("x");
  if (trains && p != 0) {
    const ValueId kept = kept_at_random(b, b.shape(x), p);
    return {dropped(b, x, kept, p), kept};
  }
  if (c.result_count() < 2) return {x};
  return {x, b.full(true, DType::boolean, b.shape(x))};
}

// A size, or a number of any kind.
Dims depth_of(AtenCall& c) {
  try {
    return c.dims("depth");
  } catch (const Error&) {  // a float
    Dims dims;
    for (const double n : c.numbers("depth")) dims.emplace_back(to_int64(n));
    return dims;
  }
}

ValueId one_hot(AtenCall& c) {
  Builder& b = c.b;
  ValueId indices = c.tensor("indices");
  const ValueId values = c.tensor("values");
  const Dims depth = depth_of(c);
  c.expects(depth.size() == 1 && b.rank(values) == 1, "one depth, and two values");
  const int64_t rank = b.rank(indices) + 1, axis = b.normal_axis(c.integer("axis"), rank);
  indices = b.cast(indices, DType::i64);
  indices = b.select(b.compare("lt", indices, 0.0), b.add(indices, b.dim_value(depth[0])), indices);
  const ValueId places = along_axis(b, b.iota(depth[0]), axis, rank);
  const ValueId hit = b.compare("eq", b.unsqueeze(indices, axis), places);
  return b.select(hit, b.select_index(values, 0, 1), b.select_index(values, 0, 0));
}

std::vector<OpDef> norms() {
  return {
      mapping("layer_norm")
          .from_aten_call("onnx.LayerNormalization.17(x, scale, bias?; axis=-1, epsilon=1e-5, stash_type=1)", layer_norm),
      mapping("rms_norm").from_aten_call("onnx.RMSNormalization.23(x, scale; axis=-1, epsilon=1e-5, stash_type=1)", rms_norm),
      mapping("batch_norm")
          .from_aten_call(
              "onnx.BatchNormalization.1(x, scale, bias, mean, var; epsilon=1e-5, is_test=0, momentum=0.9, spatial=1)",
              batch_norm)
          .from_aten_call("onnx.BatchNormalization.7(x, scale, bias, mean, var; epsilon=1e-5, momentum=0.9, spatial=1)",
                          batch_norm)
          .from_aten_call("onnx.BatchNormalization.9(x, scale, bias, mean, var; epsilon=1e-5, momentum=0.9)", batch_norm)
          .from_aten_call("onnx.BatchNormalization.14(x, scale, bias, mean, var; epsilon=1e-5, momentum=0.9, training_mode=0)",
                          batch_norm),
      mapping("instance_norm").from_aten_call("onnx.InstanceNormalization.1(x, scale, bias; epsilon=1e-5)", instance_norm),
      mapping("group_norm")
          .from_aten_call("onnx.GroupNormalization.21(x, scale, bias; epsilon=1e-5, num_groups!, stash_type=1)", group_norm)};
}

}  // namespace

std::vector<OpDef> nn_onnx_ops() {
  std::vector<OpDef> all{
      mapping("relu").from_aten("onnx.Relu.1(x)"),
      mapping("sigmoid").from_aten("onnx.Sigmoid.1(x)"),
      mapping("softplus").from_aten("onnx.Softplus.1(x)"),
      mapping("hardswish").from_aten("onnx.HardSwish.14(x)"),
      mapping("mish").from_aten("onnx.Mish.18(x)"),
      mapped("hardsigmoid", {"onnx.HardSigmoid.1(x; alpha=0.2, beta=0.5)"}, hard_sigmoid),
      mapped("gelu", {"onnx.Gelu.20(x; approximate=\"none\")"}, gelu),
      mapped("elu", {"onnx.Elu.1(x; alpha=1.0)"}, elu),
      mapped("elu", {"onnx.Selu.1(x; alpha=1.6732, gamma=1.0507)"}, selu),
      mapped("elu", {"onnx.Selu.6(x; alpha=1.67326319217681884765625, gamma=1.05070102214813232421875)"}, selu),
      mapped("elu", {"onnx.Celu.12(x; alpha=1.0)"}, celu),
      mapped("leaky_relu", {"onnx.LeakyRelu.1(x; alpha=0.01)"}, leaky_relu),
      mapped("threshold", {"onnx.ThresholdedRelu.10(x; alpha=1.0)"}, thresholded),
      mapped("prelu", {"onnx.PRelu.1(x, slope)"}, prelu_of_channels),
      mapped("prelu", {"onnx.PRelu.7(x, slope)"}, prelu),
      mapped("softmax", {"onnx.Softmax.1(x; axis=1)"}, [](AtenCall& c) { return softmax_of_rest(c, "softmax"); }),
      mapped("softmax", {"onnx.Softmax.13(x; axis=-1)"}, [](AtenCall& c) { return softmax_of(c, "softmax"); }),
      mapped("log_softmax", {"onnx.LogSoftmax.1(x; axis=1)"}, [](AtenCall& c) { return softmax_of_rest(c, "log_softmax"); }),
      mapped("log_softmax", {"onnx.LogSoftmax.13(x; axis=-1)"}, [](AtenCall& c) { return softmax_of(c, "log_softmax"); }),
      mapped("one_hot", {"onnx.OneHot.9(indices, depth#, values; axis=-1)"}, one_hot),
      mapping("dropout")
          .from_aten_call("onnx.Dropout.7(x; ratio=0.5)", dropout)
          .from_aten_call("onnx.Dropout.12(x, ratio#?, training_mode#?; seed=none)", dropout)};
  for (OpDef& each : norms()) all.push_back(std::move(each));
  return all;
}

}  // namespace pycandle
