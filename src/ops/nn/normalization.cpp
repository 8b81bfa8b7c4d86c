// Norms: layer, rms, group, batch, instance and weight norm. Statistics are computed wide and rounded where torch rounds.
#include "ir/fragment.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {
namespace {

// (x - mean) / sqrt(var + eps) over `axes`, with the statistics it used (kept as axes of 1).
struct Normal {
  ValueId y, mean, rstd;
};

Normal normalized(Builder& b, ValueId x, const Ints& axes, double eps) {
  const ValueId mean = b.mean(x, axes);
  const ValueId centred = b.sub(x, mean);
  const ValueId rstd = b.rsqrt(b.add(b.mean(b.square(centred), axes), eps));
  return {b.mul(centred, rstd), mean, rstd};
}

// y * weight + bias with one entry a channel (axis 1).
ValueId channel_affine(Builder& b, ValueId y, std::optional<ValueId> weight, std::optional<ValueId> bias) {
  const auto entry = [&](ValueId v) { return along_axis(b, b.cast(v, b.dtype(y)), 1, b.rank(y)); };
  if (weight) y = b.mul(y, entry(*weight));
  if (bias) y = b.add(y, entry(*bias));
  return y;
}

// The dtype in which torch hands out statistics: that of the weight (or bias), which may be wider than x.
DType statistics_dtype(const Call& c) {
  for (const char* name : {"weight", "bias"}) {
    if (c.has(name)) return c.type(name).dtype;
  }
  return c.type("x").dtype;
}

bool has_channels(const Call& c, const char* name) {
  return !c.has(name) || (c.rank(name) == 1 && c.rank("x") >= 2 && c.agree(c.shape(name)[0], c.shape("x")[1]));
}

bool normalizes_last_dims(const Call& c) {
  return !c.dims("normalized_shape").empty() && ends_with(c, c.shape("x"), c.dims("normalized_shape"));
}
bool is_normalized_shape(const Call& c, const char* name) {
  return !c.has(name) || c.agree(c.shape(name), c.dims("normalized_shape"));
}

Type last_statistics(const Call& c, DType dtype) {
  Type type{dtype, c.shape("x")};
  for (size_t i = type.shape.size() - c.dims("normalized_shape").size(); i < type.shape.size(); ++i) type.shape[i] = Dim(1);
  return type;
}

Normal layer_normal(Builder& b, const Call& c) {
  const ValueId x = b.widened(c.value("x"));
  Normal n = normalized(b, x, last_axes(b.rank(x), c.dims("normalized_shape").size()), c.number("eps"));
  n.y = b.narrowed(b.affine(n.y, c.maybe("weight"), c.maybe("bias")), c.type("x").dtype);
  return n;
}

// ---- norms that a program spells out: x over the root of its mean square, then perhaps weight and bias

// How people divide by the root; the first is torch's.
using OverRoot = ValueId (*)(Builder&, ValueId x, ValueId square);
const OverRoot kOverRoot[] = {
    [](Builder& b, ValueId x, ValueId square) { return b.mul(x, b.rsqrt(square)); },
    [](Builder& b, ValueId x, ValueId square) { return b.div(x, b.sqrt(square)); },
    [](Builder& b, ValueId x, ValueId square) { return b.mul(x, b.div(1.0, b.sqrt(square))); },
};

// What can be read off a fragment that ends in a norm.
struct Reading {
  ValueId core = kNoValue;                      // normalised, before weight and bias
  ValueId weight = kNoValue, bias = kNoValue;
  double weight_offset = 0;
  double eps = 0;
  Ints axes;
  DType weighted = DType::f32;                  // the dtype in which the weight is multiplied
};

// The operand of an add or mul that has one entry for each entry of the last dims, and the other operand.
std::optional<std::pair<ValueId, ValueId>> vector_and_rest(const Fragment& f, ValueId v) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId vector = f.behind_broadcasts(f.operand(v, i)), rest = f.operand(v, 1 - i);
    const Shape &small = f.shape(vector), &whole = f.shape(v);
    const bool is_tail = !small.empty() && small.size() < whole.size() &&
                         std::equal(small.rbegin(), small.rend(), whole.rbegin());
    if (is_tail && !f.number(vector) && f.shape(rest) == whole) return std::pair{vector, rest};
  }
  return std::nullopt;
}

std::optional<Reading> read_norm(const Fragment& f) {
  Reading found;
  ValueId v = f.behind(f.result(), {"cast"});
  if (f.is(v, "add")) {
    if (const auto bias = vector_and_rest(f, v)) {
      found.bias = f.behind(bias->first, {"cast"});
      v = f.behind(bias->second, {"cast"});
    }
  }
  found.weighted = f.type(v).dtype;
  if (f.is(v, "mul")) {
    if (const auto weight = vector_and_rest(f, v)) {
      found.weight = f.behind(weight->first, {"cast"});
      v = f.behind(weight->second, {"cast"});
      if (const auto offset = f.is(found.weight, "add") ? f.with_number(found.weight) : std::nullopt) {  // 1 + weight
        found.weight_offset = offset->first;
        found.weight = f.behind(offset->second, {"cast"});
      }
    }
  }
  if (!f.is_one_of(v, {"mul", "div"})) return std::nullopt;
  found.core = v;
  const ValueId root = f.nearest(v, {"rsqrt", "sqrt", "pow"});
  const ValueId sum = f.behind_broadcasts(f.operand(root, 0));
  const auto eps = f.is(sum, "add") ? f.with_number(sum) : std::nullopt;
  const ValueId mean = f.nearest(sum, {"mean", "var", "reduce_sum"});
  if (!eps || mean == kNoValue) return std::nullopt;
  found.eps = eps->first;
  found.axes = std::get<Ints>(f.attribute(mean, "axes"));
  return found;
}

// A call for each value that may be what is normalised.
std::vector<Proposal> norm_calls(const Fragment& f, const Reading& norm, const std::function<Proposal(ValueId x)>& call) {
  std::vector<Proposal> calls;
  for (ValueId x : f.entries_of(norm.core)) {
    const int64_t rank = f.type(x).rank();
    if (static_cast<int64_t>(norm.axes.size()) <= rank && norm.axes == last_axes(rank, norm.axes.size()))
      calls.push_back(call(x));
  }
  return calls;
}

Dims last_dims(const Shape& shape, size_t count) { return {shape.end() - static_cast<std::ptrdiff_t>(count), shape.end()}; }

std::vector<Proposal> propose_layer_norm(const Fragment& f) {
  const auto norm = read_norm(f);
  if (!norm || norm->weight_offset != 0) return {};
  return norm_calls(f, *norm, [&](ValueId x) {
    return Proposal{
        {x, norm->weight, norm->bias}, {{"normalized_shape", last_dims(f.shape(x), norm->axes.size())}, {"eps", norm->eps}}, {}};
  });
}

ValueId spelled_layer_norm(Builder& b, const Call& c, OverRoot over_root) {
  const ValueId x = b.widened(c.value("x"));
  const Ints axes = last_axes(b.rank(x), c.dims("normalized_shape").size());
  const ValueId centred = b.sub(x, b.mean(x, axes));
  const ValueId y = over_root(b, centred, b.add(b.mean(b.square(centred), axes), c.number("eps")));
  return b.narrowed(b.affine(y, c.maybe("weight"), c.maybe("bias")), c.type("x").dtype);
}

OpDef layer_norm_like(const std::string& name) {
  return functional(name)
      .operands("x", optional("weight"), optional("bias"))
      .attributes(attr<Dims>("normalized_shape"), attr<double>("eps", 1e-5))
      .constraint(name + "_c1", "normalized_shape has a dim and equals the last dims of x", normalizes_last_dims)
      .constraint(name + "_c2", "weight and bias have the shape normalized_shape",
                  [](const Call& c) { return is_normalized_shape(c, "weight") && is_normalized_shape(c, "bias"); });
}

OpDef layer_norm() {
  OpDef op = layer_norm_like("layer_norm")
                 .doc("(x - mean) / sqrt(var + eps) over the last dims, then weight and bias")
                 .infer([](const Call& c) { return c.type("x"); })
                 .decompose([](Builder& b, const Call& c) { return layer_normal(b, c).y; })
                 .from_aten("aten.layer_norm.default(x, normalized_shape, weight, bias, eps, _)",
                            discard("cudnn_enable: no effect on values"))
                 .sample("F.layer_norm(t(2, 3, 4), [4], t(4), t(4), 1e-3)")
                 .sample("F.layer_norm(t(2, 3, 4), [3, 4], t(3, 4))")
                 .sample("F.layer_norm(t(2, 3, 4), [4], None, t(4))")
                 .sample("F.layer_norm(t(2, 3, 4) * 100 + 1000, [4])")
                 .sample("F.layer_norm(t(2, 3, 4, dtype=torch.bfloat16), [4], t(4), t(4))")
                 .sample("F.layer_norm(t(0, 4), [4], t(4), t(4))")
                 .spelled_cpp("layer_norm")
                 .spelled_candle("candle_nn::LayerNorm")
                 .recognised_at({"add", "mul", "div", "cast"}, propose_layer_norm);
  for (size_t i = 1; i < std::size(kOverRoot); ++i) {
    op.also_written_as([i](Builder& b, const Call& c) { return spelled_layer_norm(b, c, kOverRoot[i]); });
  }
  return op;
}

OpDef native_layer_norm() {
  return layer_norm_like("native_layer_norm")
      .doc("layer_norm that also gives mean and 1 / sqrt(var + eps)")
      .infer_all([](const Call& c) {
        const Type statistics = last_statistics(c, statistics_dtype(c));
        return std::vector<Type>{c.type("x"), statistics, statistics};
      })
      .decompose_all([](Builder& b, const Call& c) {
        const Normal n = layer_normal(b, c);
        return Values{n.y, b.narrowed(n.mean, statistics_dtype(c)), b.narrowed(n.rstd, statistics_dtype(c))};
      })
      .from_aten("aten.native_layer_norm.default(x, normalized_shape, weight, bias, eps)")
      .sample("torch.native_layer_norm(t(2, 3, 4), [4], t(4), t(4), 1e-3)")
      .sample("torch.native_layer_norm(t(2, 3, 4), [3, 4], None, None, 1e-5)")
      .spelled_cpp("native_layer_norm");
}

// x / sqrt(mean(x²) + eps) over the last dims, before the weight; in the dtype in which it is computed.
ValueId mean_square(Builder& b, const Call& c, ValueId x) {
  const ValueId square = b.create("mean", {b.square(x)},
                                  {{"axes", last_axes(b.rank(x), c.dims("normalized_shape").size())}, {"keep", true}});
  // Without eps torch takes the epsilon of the dtype it computes in: two units of roundoff.
  return b.add(square, c.has("eps") ? c.number("eps") : 2 * unit_roundoff(b.dtype(x)));
}

OpDef rms_norm_like(const std::string& name) {
  return functional(name)
      .operands("x", optional("weight"))
      .attributes(attr<Dims>("normalized_shape"), optional_attr<double>("eps"))
      .constraint(name + "_c1", "normalized_shape has a dim and equals the last dims of x", normalizes_last_dims)
      .constraint(name + "_c2", "weight has the shape normalized_shape",
                  [](const Call& c) { return is_normalized_shape(c, "weight"); });
}

// Models differ in where they round: torch and Gemma multiply by the weight before they come back to the dtype of x,
// Llama and T5 after it; Gemma's weight is kept less 1.
ValueId rms_normal(Builder& b, const Call& c, OverRoot over_root) {
  const DType dtype = c.type("x").dtype;
  const ValueId x = b.cast(c.value("x"), c.has("compute_dtype") ? c.dtype("compute_dtype") : wide_of(dtype));
  ValueId y = over_root(b, x, mean_square(b, c, x));
  if (c.boolean("round_before_weight")) y = b.cast(y, dtype);
  if (const auto given = c.maybe("weight")) {
    ValueId weight = b.cast(*given, b.dtype(y));
    if (c.number("weight_offset") != 0) weight = b.add(weight, c.number("weight_offset"));
    y = b.mul(y, weight);
  }
  return b.cast(y, dtype);
}

std::vector<Proposal> propose_rms_norm(const Fragment& f) {
  const auto norm = read_norm(f);
  if (!norm || norm->bias != kNoValue) return {};
  const DType computed = f.type(norm->core).dtype;
  return norm_calls(f, *norm, [&](ValueId x) {
    const DType dtype = f.type(x).dtype;
    return Proposal{{x, norm->weight},
                    {{"normalized_shape", last_dims(f.shape(x), norm->axes.size())},
                     {"eps", norm->eps},
                     {"compute_dtype", computed == wide_of(dtype) ? Attribute() : Attribute(computed)},
                     {"round_before_weight", norm->weight != kNoValue && computed != dtype && norm->weighted == dtype},
                     {"weight_offset", norm->weight_offset}},
                    {}};
  });
}

OpDef rms_norm() {
  OpDef op =
      rms_norm_like("rms_norm")
          .doc(
              "x / sqrt(mean(x²) + eps) over the last dims, then weight (+ weight_offset); rounds once, or before the weight too")
          .attributes(optional_attr<DType>("compute_dtype"), attr<bool>("round_before_weight", false),
                      attr<double>("weight_offset", 0.0))
          .constraint("rms_norm_c3", "compute_dtype is floating",
                      [](const Call& c) { return !c.has("compute_dtype") || is_floating(c.dtype("compute_dtype")); })
          .infer([](const Call& c) { return c.type("x"); })
          .decompose([](Builder& b, const Call& c) { return rms_normal(b, c, kOverRoot[0]); })
          .from_aten("aten.rms_norm.default(x, normalized_shape, weight, eps)")
          .sample("F.rms_norm(t(2, 3, 4), [4], t(4), 1e-3)")
          .sample("F.rms_norm(t(2, 3, 4) * 1e-4, [3, 4])")
          .sample("F.rms_norm(t(2, 3, 4), [4], t(4))")
          .spelled_cpp("rms_norm")
          .spelled_candle("candle_nn::RmsNorm")
          .recognised_at({"mul", "div", "cast"}, propose_rms_norm);
  for (size_t i = 1; i < std::size(kOverRoot); ++i) {
    op.also_written_as([i](Builder& b, const Call& c) { return rms_normal(b, c, kOverRoot[i]); });
  }
  return op;
}

OpDef fused_rms_norm() {
  return rms_norm_like("fused_rms_norm")
      .doc("rms_norm that also gives 1 / sqrt(mean(x²) + eps)")
      .infer_all([](const Call& c) { return std::vector<Type>{c.type("x"), last_statistics(c, wide_of(c.type("x").dtype))}; })
      .decompose_all([](Builder& b, const Call& c) {
        const ValueId x = b.widened(c.value("x")), factor = b.rsqrt(mean_square(b, c, x));
        return Values{b.narrowed(b.affine(b.mul(x, factor), c.maybe("weight"), std::nullopt), c.type("x").dtype), factor};
      })
      .from_aten("aten._fused_rms_norm.default(x, normalized_shape, weight, eps)")
      .sample("torch.ops.aten._fused_rms_norm(t(2, 3, 4), [4], t(4), 1e-3)")
      .spelled_cpp("fused_rms_norm");
}

// Groups of channels as the last of three axes: [N, groups, C / groups * …].
Normal group_normal(Builder& b, const Call& c) {
  const Type type = c.type("x");
  const Dim groups = c.integer("groups");
  Dim rest = floordiv(type.shape[1], groups);
  for (size_t i = 2; i < type.shape.size(); ++i) rest = rest * type.shape[i];
  Normal n = normalized(b, b.reshape(b.widened(c.value("x")), {type.shape[0], groups, rest}), {2}, c.number("eps"));
  n.y = b.narrowed(channel_affine(b, b.reshape(n.y, type.shape), c.maybe("weight"), c.maybe("bias")), type.dtype);
  return n;
}

OpDef group_norm_like(const std::string& name) {
  return functional(name)
      .operands("x", optional("weight"), optional("bias"))
      .attributes(attr<int64_t>("groups"), attr<double>("eps", 1e-5))
      .constraint(name + "_c1", "x has a channel axis that groups divides",
                  [](const Call& c) {
                    return c.rank("x") >= 2 && c.integer("groups") > 0 &&
                           c.agree(mod(c.shape("x")[1], Dim(c.integer("groups"))), Dim(0));
                  })
      .constraint(name + "_c2", "weight and bias have one entry a channel",
                  [](const Call& c) { return has_channels(c, "weight") && has_channels(c, "bias"); });
}

OpDef group_norm() {
  return group_norm_like("group_norm")
      .doc("(x - mean) / sqrt(var + eps) over groups of channels, then weight and bias a channel")
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) { return group_normal(b, c).y; })
      .from_aten("aten.group_norm.default(x, groups, weight, bias, eps, _)", discard("cudnn_enabled: no effect on values"))
      .sample("F.group_norm(t(2, 6, 4, 5), 3, t(6), t(6), 1e-3)")
      .sample("F.group_norm(t(2, 6, 4), 2)")
      .sample("F.group_norm(t(2, 6), 1, t(6))")
      .sample("F.group_norm(t(2, 6, 4, dtype=torch.bfloat16), 3, t(6), t(6))")
      .spelled_cpp("group_norm")
      .spelled_candle("candle_nn::GroupNorm");
}

OpDef native_group_norm() {
  return group_norm_like("native_group_norm")
      .doc("group_norm that also gives mean and 1 / sqrt(var + eps) of each group")
      .infer_all([](const Call& c) {
        const Type statistics{statistics_dtype(c), {c.shape("x")[0], Dim(c.integer("groups"))}};
        return std::vector<Type>{c.type("x"), statistics, statistics};
      })
      .decompose_all([](Builder& b, const Call& c) {
        const Normal n = group_normal(b, c);
        const auto statistic = [&](ValueId v) { return b.narrowed(b.squeeze(v, 2), statistics_dtype(c)); };
        return Values{n.y, statistic(n.mean), statistic(n.rstd)};
      })
      .from_aten("aten.native_group_norm.default(x, weight, bias, _, _, _, groups, eps)", discard("N: the first dim of x"),
                 discard("C: the second dim of x"), discard("HxW: the rest of x"))
      .sample("torch.native_group_norm(t(2, 6, 4), t(6), t(6), 2, 6, 4, 3, 1e-3)")
      .spelled_cpp("native_group_norm");
}

// x normalised by given statistics: batch norm as it runs in evaluation.
OpDef batch_norm() {
  return functional("batch_norm")
      .doc("(x - mean) / sqrt(var + eps) with given statistics a channel, then weight and bias")
      .operands("x", "mean", "var", optional("weight"), optional("bias"))
      .attributes(attr<double>("eps", 1e-5))
      .constraint("batch_norm_c1", "statistics, weight and bias have one entry a channel",
                  [](const Call& c) {
                    return has_channels(c, "mean") && has_channels(c, "var") && has_channels(c, "weight") &&
                           has_channels(c, "bias");
                  })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        const ValueId x = b.widened(c.value("x"));
        const auto entry = [&](ValueId v) { return along_axis(b, b.cast(v, b.dtype(x)), 1, b.rank(x)); };
        const ValueId rstd = b.rsqrt(b.add(entry(c.value("var")), c.number("eps")));
        const ValueId normal = b.mul(b.sub(x, entry(c.value("mean"))), rstd);
        return b.narrowed(channel_affine(b, normal, c.maybe("weight"), c.maybe("bias")), c.type("x").dtype);
      })
      .from_aten_call("aten._native_batch_norm_legit_no_training.default",
                      [](AtenCall& a) {
                        const auto or_none = [&](const char* name) { return a.maybe_tensor(name).value_or(kNoValue); };
                        a.discard("momentum", "only moves the running statistics, in training");
                        const ValueId y = a.b.create("batch_norm",
                                                     {a.tensor("input"), a.tensor("running_mean"), a.tensor("running_var"),
                                                      or_none("weight"), or_none("bias")},
                                                     {{"eps", a.number("eps")}});
                        // The saved statistics are empty in evaluation (on the meta device torch gives them a size); nobody reads
                        // them.
                        const auto unread = [&](size_t i) { return a.b.full(0.0, a.result(i).dtype, a.result(i).shape); };
                        return Values{y, unread(1), unread(2)};
                      })
      .sample("F.batch_norm(t(2, 3, 4, 5), t(3), t(3, low=0.5, high=2), t(3), t(3), False, 0.1, 1e-3)")
      .sample("F.batch_norm(t(2, 3), t(3), t(3, low=0.5, high=2))")
      .sample("F.batch_norm(t(2, 3, 4, dtype=torch.bfloat16), t(3), t(3, low=0.5, high=2), t(3), t(3))")
      .spelled_cpp("batch_norm")
      .spelled_candle("candle_nn::BatchNorm");
}

// Batch norm by the statistics of the batch itself, as in training and without running statistics. With running
// statistics their new values are results as well.
OpDef batch_norm_training() {
  const auto channels = [](const Call& c, DType d) { return Type{d, {c.shape("x")[1]}}; };
  return functional("batch_norm_training")
      .doc("batch norm by the batch's own statistics; gives them, and the new running statistics")
      .operands("x", optional("weight"), optional("bias"), optional("running_mean"), optional("running_var"))
      .attributes(attr<double>("momentum", 0.1), attr<double>("eps", 1e-5))
      .constraint("batch_norm_training_c1", "statistics, weight and bias have one entry a channel",
                  [](const Call& c) {
                    return c.rank("x") >= 2 && has_channels(c, "running_mean") && has_channels(c, "running_var") &&
                           has_channels(c, "weight") && has_channels(c, "bias");
                  })
      .constraint("batch_norm_training_c2", "running_mean and running_var come together",
                  [](const Call& c) { return c.has("running_mean") == c.has("running_var"); })
      .infer_all([channels](const Call& c) {
        const Type statistics = channels(c, statistics_dtype(c));
        std::vector<Type> results{c.type("x"), statistics, statistics};
        for (const char* name : {"running_mean", "running_var"}) {
          if (c.has(name)) results.push_back(c.type(name));
        }
        return results;
      })
      .decompose_all([](Builder& b, const Call& c) {
        const ValueId x = b.widened(c.value("x"));
        const DType stored = statistics_dtype(c);
        Ints axes = axes_between(2, b.rank(x));
        axes.insert(axes.begin(), 0);
        const Normal n = normalized(b, x, axes, c.number("eps"));
        const ValueId mean = b.narrowed(n.mean, stored), rstd = b.narrowed(n.rstd, stored);
        // torch normalises with the statistics as it stores them.
        const ValueId normal = b.mul(b.sub(x, b.cast(mean, b.dtype(x))), b.cast(rstd, b.dtype(x)));
        const auto flat = [&](ValueId v) { return b.reshape(v, {c.shape("x")[1]}); };
        Values results{b.narrowed(channel_affine(b, normal, c.maybe("weight"), c.maybe("bias")), c.type("x").dtype), flat(mean),
                       flat(rstd)};
        if (!c.has("running_mean")) return results;
        Dim count = 1;
        for (const int64_t axis : axes) count = count * c.shape("x")[axis];
        const ValueId variance = b.mean(b.square(b.sub(x, n.mean)), axes);
        const ValueId unbiased = b.mul(variance, b.div(b.dim_value(count, b.dtype(x)), b.dim_value(count - 1, b.dtype(x))));
        const auto moved = [&](const char* name, ValueId now) {
          const ValueId before = b.cast(c.value(name), b.dtype(x));
          return b.narrowed(b.add(b.mul(before, 1 - c.number("momentum")), b.mul(flat(now), c.number("momentum"))),
                            c.type(name).dtype);
        };
        results.push_back(moved("running_mean", n.mean));
        results.push_back(moved("running_var", unbiased));
        return results;
      })
      .from_aten_call("aten._native_batch_norm_legit.no_stats",
                      [](AtenCall& a) {
                        if (!a.boolean("training")) a.unsupported("evaluation without running statistics");
                        const auto or_none = [&](const char* name) { return a.maybe_tensor(name).value_or(kNoValue); };
                        a.discard("momentum", "there are no running statistics");
                        return a.b.create_all("batch_norm_training", {a.tensor("input"), or_none("weight"), or_none("bias")},
                                              {{"eps", a.number("eps")}});
                      })
      .from_aten_call("aten._native_batch_norm_legit_functional.default",
                      [](AtenCall& a) {
                        const auto or_none = [&](const char* name) { return a.maybe_tensor(name).value_or(kNoValue); };
                        const ValueId x = a.tensor("input"), weight = or_none("weight"), bias = or_none("bias");
                        const ValueId mean = a.tensor("running_mean"), var = a.tensor("running_var");
                        const double momentum = a.number("momentum"), eps = a.number("eps");
                        if (!a.boolean("training")) {  // the saved statistics are empty then, and the running ones stay
                          const ValueId y = a.b.create("batch_norm", {x, mean, var, weight, bias}, {{"eps", eps}});
                          const auto empty = [&](size_t i) { return a.b.full(0.0, a.result(i).dtype, {Dim(0)}); };
                          return Values{y, empty(1), empty(2), a.b.cast(mean, a.result(3).dtype),
                                        a.b.cast(var, a.result(4).dtype)};
                        }
                        Values results = a.b.create_all("batch_norm_training", {x, weight, bias, mean, var},
                                                        {{"momentum", momentum}, {"eps", eps}});
                        for (size_t i = 0; i < results.size(); ++i)
                          results[i] = a.b.cast(results[i], a.result(i).dtype);  // f16 statistics come out as f32
                        return results;
                      })
      .sample("F.batch_norm(t(4, 3, 5), None, None, t(3), t(3), True, 0.1, 1e-3)")
      .sample("F.batch_norm(t(4, 3), None, None, None, None, True)")
      .sample(
          "torch.ops.aten._native_batch_norm_legit_functional(t(4, 3, 5, dtype=torch.float32), t(3, dtype=torch.float32), t(3, "
          "dtype=torch.float32), "
          "t(3, dtype=torch.float32), t(3, dtype=torch.float32), True, 0.1, 1e-3)")
      .spelled_cpp("batch_norm_training");
}

OpDef instance_norm() {
  return functional("instance_norm")
      .doc("(x - mean) / sqrt(var + eps) over the positions of each channel, then weight and bias")
      .operands("x", optional("weight"), optional("bias"))
      .attributes(attr<double>("eps", 1e-5))
      .constraint("instance_norm_c1", "x has axes after its channels; weight and bias have one entry a channel",
                  [](const Call& c) { return c.rank("x") >= 3 && has_channels(c, "weight") && has_channels(c, "bias"); })
      .infer([](const Call& c) { return c.type("x"); })
      .decompose([](Builder& b, const Call& c) {
        // torch makes a batch of one out of the batch and runs batch norm: it normalises with statistics as stored.
        const ValueId x = b.widened(c.value("x"));
        const DType stored = statistics_dtype(c);
        const auto as_stored = [&](ValueId v) { return b.cast(b.narrowed(v, stored), b.dtype(x)); };
        const Normal n = normalized(b, x, axes_between(2, b.rank(x)), c.number("eps"));
        const ValueId normal = b.mul(b.sub(x, as_stored(n.mean)), as_stored(n.rstd));
        return b.narrowed(channel_affine(b, normal, c.maybe("weight"), c.maybe("bias")), c.type("x").dtype);
      })
      .from_aten_call("aten.instance_norm.default",
                      [](AtenCall& a) {
                        const auto or_none = [&](const char* name) { return a.maybe_tensor(name).value_or(kNoValue); };
                        a.discard("momentum", "only moves the running statistics, in training");
                        a.discard("cudnn_enabled", "no effect on values");
                        const ValueId x = a.tensor("input"), weight = or_none("weight"), bias = or_none("bias");
                        const ValueId mean = or_none("running_mean"), var = or_none("running_var");
                        const Attributes eps{{"eps", a.number("eps")}};
                        if (a.boolean("use_input_stats")) {
                          // torch moves running statistics in place, which is no result, so the recorder refuses it; nothing
                          // here depends on them.
                          return a.b.create_all("instance_norm", {x, weight, bias}, eps);
                        }
                        return a.b.create_all("batch_norm", {x, mean, var, weight, bias}, eps);
                      })
      .sample("F.instance_norm(t(2, 3, 4, 5), None, None, t(3), t(3), eps=1e-3)")
      .sample("F.instance_norm(t(2, 3, 7))")
      .sample("F.instance_norm(t(2, 3, 7), torch.zeros(3).to(t(1)), torch.ones(3).to(t(1)))")
      .sample("F.instance_norm(t(2, 3, 7), t(3), t(3, low=0.5, high=2), use_input_stats=False)")
      .spelled_cpp("instance_norm");
}

OpDef weight_norm() {
  return functional("weight_norm")
      .doc("v * g / |v|, the norm over all axes but dim (-1: over all)")
      .operands("v", "g")
      .attributes(attr<int64_t>("dim", int64_t{0}))
      .constraint("weight_norm_c1", "dim is an axis of v, or -1",
                  [](const Call& c) { return c.integer("dim") >= -1 && c.integer("dim") < c.rank("v"); })
      .infer([](const Call& c) { return c.type("v"); })
      .decompose([](Builder& b, const Call& c) {
        const DType dtype = c.type("v").dtype;
        const int64_t dim = c.integer("dim"), rank = c.rank("v");
        Ints axes = axes_between(0, rank);
        if (dim >= 0) axes.erase(axes.begin() + dim);
        const ValueId v = b.widened(c.value("v")), g = b.widened(c.value("g"));
        ValueId norm = b.sqrt(b.sum(b.square(v), axes));
        if (dim == 0 || dim == rank - 1) return b.narrowed(b.mul(v, b.div(g, norm)), dtype);
        // For an axis in the middle torch has no kernel of its own and rounds each step.
        norm = b.narrowed(norm, dtype);
        return b.mul(c.value("v"), b.div(c.value("g"), norm));
      })
      .from_aten("aten._weight_norm.default(v, g, dim)")
      .sample("torch._weight_norm(t(4, 3, 2), t(4, 1, 1), 0)")
      .sample("torch._weight_norm(t(4, 3, 2), t(1, 1, 2), 2)")
      .sample("torch._weight_norm(t(4, 3, 2), t(1, 3, 1), 1)")
      .sample("torch._weight_norm(t(4, 3, 2), t(), -1)")
      .spelled_cpp("weight_norm");
}

}  // namespace

std::vector<OpDef> normalization_ops() {
  return {layer_norm(), native_layer_norm(),   rms_norm(),      fused_rms_norm(), group_norm(), native_group_norm(),
          batch_norm(), batch_norm_training(), instance_norm(), weight_norm()};
}

}  // namespace pycandle
