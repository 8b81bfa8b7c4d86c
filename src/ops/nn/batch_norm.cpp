// Norms with a weight for each channel: group, batch and instance norm; and weight norm.
#include <fmt/format.h>

#include <algorithm>

#include "ops/nn/norm_helpers.h"

namespace pycandle {
namespace {

// y * weight + bias with one entry a channel (axis 1).
ValueId channel_affine(Builder& b, ValueId y, std::optional<ValueId> weight, std::optional<ValueId> bias) {
  const auto entry = [&](ValueId v) { return along_axis(b, b.cast(v, b.dtype(y)), 1, b.rank(y)); };
  if (weight) y = b.mul(y, entry(*weight));
  if (bias) y = b.add(y, entry(*bias));
  return y;
}

bool has_channels(const Call& c, const char* name) {
  return !c.has(name) || (c.rank(name) == 1 && c.rank("x") >= 2 && c.agree(c.shape(name)[0], c.shape("x")[1]));
}

// ---- modules, and what people get wrong

LayerArguments group_norm_arguments(const LayerCall& l) {
  if (!l.is_own_or_absent("weight") || !l.is_own_or_absent("bias")) return {};
  if (l.absent("weight") != l.absent("bias") || !l.call().shape("x").at(1).is_number()) return {};
  return {{required("num_groups", l.attribute("groups")), required("num_channels", l.size("x", 1)),
           option("eps", l.attribute("eps"), 1e-5), option("affine", !l.absent("weight"), true)}};
}

LayerArguments batch_norm_arguments(const LayerCall& l) {
  if (!l.is_own("mean", "running_mean") || !l.is_own("var", "running_var")) return {};
  if (!l.is_own_or_absent("weight") || !l.is_own_or_absent("bias")) return {};
  if (l.absent("weight") != l.absent("bias")) return {};
  return {{required("num_features", l.size("mean", 0)), option("eps", l.attribute("eps"), 1e-5),
           option("affine", !l.absent("weight"), true)}};
}

LayerArguments instance_norm_arguments(const LayerCall& l) {
  if (!l.is_own_or_absent("weight") || !l.is_own_or_absent("bias") || l.absent("weight") != l.absent("bias")) return {};
  const Dim channels = l.call().shape("x").at(1);
  if (!channels.is_number()) return {};
  return {{required("num_features", channels.number()), option("eps", l.attribute("eps"), 1e-5),
           option("affine", !l.absent("weight"), false)}};
}

void other_groups(Mistakes& m) {
  const int64_t channels = m.size(m.call().shape("x")[1]), now = m.call().integer("groups");
  for (int64_t groups = 1; groups <= channels; groups *= 2) {
    if (groups != now && channels % groups == 0)
      m.attribute("groups", "groups", groups, fmt::format("{} groups", now), fmt::format("{} groups", groups));
  }
}

// Batch norm with another factor made of the variance.
ValueId with_factor(const MistakeSite& site, ValueId factor) {
  Builder& b = site.b;
  const ValueId x = site.operands[0];
  const auto across = [&](ValueId v) { return along_axis(b, v, 1, b.rank(x)); };
  ValueId y = b.mul(b.sub(x, across(site.operand("mean"))), across(factor));
  if (site.operand("weight") != kNoValue) y = b.mul(y, across(site.operand("weight")));
  if (site.operand("bias") != kNoValue) y = b.add(y, across(site.operand("bias")));
  return y;
}

void statistics_mistakes(Mistakes& m) {
  const double eps = m.call().number("eps");
  m.build("epsilon place", "epsilon inside the root", "epsilon outside the root", [eps](const MistakeSite& site) {
    Builder& b = site.b;
    return Values{with_factor(site, b.unary("reciprocal", b.add(b.sqrt(site.operand("var")), eps)))};
  });
  m.build("variance", "the variance", "the variance without its root", [eps](const MistakeSite& site) {
    return Values{with_factor(site, site.b.unary("reciprocal", site.b.add(site.operand("var"), eps)))};
  });
  m.operand("stale buffer", "mean", "the running mean", "a running mean of zero",
            [](Builder& b, ValueId x) { return b.like(x, 0.0); });
  m.operand("stale buffer", "var", "the running variance", "a running variance of one",
            [](Builder& b, ValueId x) { return b.like(x, 1.0); });
}

// ---- the ops

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
      .one_kernel()
      .from_aten("aten.group_norm.default(x, groups, weight, bias, eps, _)", discard("cudnn_enabled: no effect on values"))
      .sample("F.group_norm(t(2, 6, 4, 5), 3, t(6), t(6), 1e-3)")
      .sample("F.group_norm(t(2, 6, 4), 2)")
      .sample("F.group_norm(t(2, 6), 1, t(6))")
      .sample("F.group_norm(t(2, 6, 4, dtype=torch.bfloat16), 3, t(6), t(6))")
      .spelled_torch("F.group_norm({x}, {groups}, {weight}, {bias}, {eps})")
      .nn("GroupNorm", group_norm_arguments)
      .member("norm")
      .results({"normed"})
      .mistakes(affine_mistakes)
      .mistakes(other_groups)
      .mistakes(other_epsilon);
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
      .sample("torch.native_group_norm(t(2, 6, 4), t(6), t(6), 2, 6, 4, 3, 1e-3)");
}

// As torch computes [N, C] and whatever is not contiguous: f16 and bf16 are rounded after each step.
ValueId batch_norm_step_by_step(Builder& b, const Call& c) {
  const ValueId x = c.value("x");
  const auto across = [&](ValueId v) { return along_axis(b, v, 1, b.rank(x)); };
  const ValueId deviation = b.sqrt(b.add(c.value("var"), c.number("eps")));
  ValueId y = b.mul(b.sub(x, across(c.value("mean"))), across(b.div(1.0, deviation)));
  if (c.has("weight")) y = b.mul(y, across(c.value("weight")));
  return c.has("bias") ? b.add(y, across(c.value("bias"))) : y;
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
      .one_kernel()
      .also_written_as(batch_norm_step_by_step)
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
      .spelled_torch("F.batch_norm({x}, {mean}, {var}, {weight}, {bias}, False, 0.0, {eps})")
      .nn(
          {"BatchNorm1d", "BatchNorm2d", "BatchNorm3d"},  // they differ in the rank that they take
          [](const Call& c) { return static_cast<size_t>(std::clamp<int64_t>(c.rank("x") - 3, 0, 2)); }, batch_norm_arguments)
      .member("norm")
      .results({"normed"})
      .mistakes(affine_mistakes)
      .mistakes(statistics_mistakes)
      .mistakes(other_epsilon);
}

Values build_functional_batch_norm(AtenCall& a) {
  const auto or_none = [&](const char* name) { return a.maybe_tensor(name).value_or(kNoValue); };
  const ValueId x = a.tensor("input"), weight = or_none("weight"), bias = or_none("bias");
  const ValueId mean = a.tensor("running_mean"), var = a.tensor("running_var");
  const double momentum = a.number("momentum"), eps = a.number("eps");
  if (!a.boolean("training")) {  // the saved statistics are empty then, and the running ones stay
    const ValueId y = a.b.create("batch_norm", {x, mean, var, weight, bias}, {{"eps", eps}});
    const auto empty = [&](size_t i) { return a.b.full(0.0, a.result(i).dtype, {Dim(0)}); };
    return Values{y, empty(1), empty(2), a.b.cast(mean, a.result(3).dtype), a.b.cast(var, a.result(4).dtype)};
  }
  Values results = a.b.create_all("batch_norm_training", {x, weight, bias, mean, var}, {{"momentum", momentum}, {"eps", eps}});
  for (size_t i = 0; i < results.size(); ++i)
    results[i] = a.b.cast(results[i], a.result(i).dtype);  // f16 statistics come out as f32
  return results;
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
      .from_aten_call("aten._native_batch_norm_legit_functional.default", build_functional_batch_norm)
      .sample("F.batch_norm(t(4, 3, 5), None, None, t(3), t(3), True, 0.1, 1e-3)")
      .sample("F.batch_norm(t(4, 3), None, None, None, None, True)")
      .sample(
          "torch.ops.aten._native_batch_norm_legit_functional(t(4, 3, 5, dtype=torch.float32), t(3, dtype=torch.float32), t(3, "
          "dtype=torch.float32), "
          "t(3, dtype=torch.float32), t(3, dtype=torch.float32), True, 0.1, 1e-3)")
      .results({"normed", "mean", "rstd", "next_mean", "next_var"});
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
      .nn(
          {"InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"},
          [](const Call& c) { return static_cast<size_t>(std::clamp<int64_t>(c.rank("x") - 3, 0, 2)); }, instance_norm_arguments)
      .member("norm")
      .sample("F.instance_norm(t(2, 3, 4, 5), None, None, t(3), t(3), eps=1e-3)")
      .sample("F.instance_norm(t(2, 3, 7))")
      .sample("F.instance_norm(t(2, 3, 7), torch.zeros(3).to(t(1)), torch.ones(3).to(t(1)))")
      .sample("F.instance_norm(t(2, 3, 7), t(3), t(3, low=0.5, high=2), use_input_stats=False)")
      .mistakes(affine_mistakes)
      .mistakes(other_epsilon);
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
      .sample("torch._weight_norm(t(4, 3, 2), t(), -1)");
}

}  // namespace

std::vector<OpDef> batch_norm_ops() {
  return {group_norm(), native_group_norm(), batch_norm(), batch_norm_training(), instance_norm(), weight_norm()};
}

}  // namespace pycandle
