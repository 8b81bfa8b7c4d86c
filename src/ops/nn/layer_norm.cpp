// Norms over the last dims: layer and rms norm. Statistics are computed wide and rounded where torch rounds.
#include "ir/fragment.h"
#include "ops/core/alignment.h"
#include "ops/nn/norm_helpers.h"

namespace pycandle {
namespace {

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
struct FoundNorm {
  ValueId core = kNoValue;                      // normalised, before weight and bias
  ValueId weight = kNoValue, bias = kNoValue;
  double weight_offset = 0;
  double eps = 0;
  Ints axes;
  DType weighted = DType::f32;                  // the dtype in which the weight is multiplied
};

// The operand of an add or mul that has one entry for each entry of the last dims, and the other operand.
std::optional<std::pair<ValueId, ValueId>> vector_and_rest(const Fragment& r, ValueId v) {
  for (size_t i : {size_t{0}, size_t{1}}) {
    const ValueId vector = r.behind_broadcasts(r.operand(v, i)), rest = r.operand(v, 1 - i);
    const Shape &small = r.shape(vector), &whole = r.shape(v);
    const bool is_tail = !small.empty() && small.size() < whole.size() &&
                         std::equal(small.rbegin(), small.rend(), whole.rbegin());
    if (is_tail && !r.number(vector) && r.shape(rest) == whole) return std::pair{vector, rest};
  }
  return std::nullopt;
}

std::optional<FoundNorm> read_norm(const Fragment& r) {
  FoundNorm found;
  ValueId v = r.behind(r.result(), {"cast"});
  if (r.is(v, "add")) {
    if (const auto bias = vector_and_rest(r, v)) {
      found.bias = r.behind(bias->first, {"cast"});
      v = r.behind(bias->second, {"cast"});
    }
  }
  found.weighted = r.type(v).dtype;
  if (r.is(v, "mul")) {
    if (const auto weight = vector_and_rest(r, v)) {
      found.weight = r.behind(weight->first, {"cast"});
      v = r.behind(weight->second, {"cast"});
      if (const auto offset = r.is(found.weight, "add") ? r.with_number(found.weight) : std::nullopt) {  // 1 + weight
        found.weight_offset = offset->first;
        found.weight = r.behind(offset->second, {"cast"});
      }
    }
  }
  if (!r.is_one_of(v, {"mul", "div"})) return std::nullopt;
  found.core = v;
  const ValueId root = r.nearest(v, {"rsqrt", "sqrt", "pow"});
  const ValueId sum = r.behind_broadcasts(r.operand(root, 0));
  const auto eps = r.is(sum, "add") ? r.with_number(sum) : std::nullopt;
  const ValueId mean = r.nearest(sum, {"mean", "var", "reduce_sum"});
  if (!eps || mean == kNoValue) return std::nullopt;
  found.eps = eps->first;
  found.axes = std::get<Ints>(r.attribute(mean, "axes"));
  return found;
}

// A call for each value that may be what is normalised.
std::vector<Proposal> norm_calls(const Fragment& r, const FoundNorm& norm, const std::function<Proposal(ValueId x)>& call) {
  std::vector<Proposal> calls;
  for (ValueId x : r.entries_of(norm.core)) {
    const int64_t rank = r.type(x).rank();
    if (static_cast<int64_t>(norm.axes.size()) <= rank && norm.axes == last_axes(rank, norm.axes.size()))
      calls.push_back(call(x));
  }
  return calls;
}

Dims last_dims(const Shape& shape, size_t count) { return {shape.end() - static_cast<std::ptrdiff_t>(count), shape.end()}; }

std::vector<Proposal> propose_layer_norm(const Fragment& r) {
  const auto norm = read_norm(r);
  if (!norm || norm->weight_offset != 0) return {};
  return norm_calls(r, *norm, [&](ValueId x) {
    return Proposal{
        {x, norm->weight, norm->bias}, {{"normalized_shape", last_dims(r.shape(x), norm->axes.size())}, {"eps", norm->eps}}, {}};
  });
}

ValueId spelled_layer_norm(Builder& b, const Call& c, OverRoot over_root) {
  const ValueId x = b.widened(c.value("x"));
  const Ints axes = last_axes(b.rank(x), c.dims("normalized_shape").size());
  const ValueId centred = b.sub(x, b.mean(x, axes));
  const ValueId y = over_root(b, centred, b.add(b.mean(b.square(centred), axes), c.number("eps")));
  return b.narrowed(b.affine(y, c.maybe("weight"), c.maybe("bias")), c.type("x").dtype);
}

// ---- modules, and what people get wrong

std::optional<LayerArgument> normalized_shape_argument(const LayerCall& l) {
  const Attribute shape = one_number_of_dims(l.attribute("normalized_shape"));
  if (l.call().dims("normalized_shape").size() != 1 || !std::holds_alternative<int64_t>(shape)) return {};
  return required("normalized_shape", shape);
}

LayerArguments layer_norm_arguments(const LayerCall& l) {
  const auto shape = normalized_shape_argument(l);
  if (!shape || !l.is_own_or_absent("weight") || !l.is_own_or_absent("bias")) return {};
  if (l.absent("weight") && !l.absent("bias")) return {};
  const bool affine = !l.absent("weight");
  return {{*shape, option("eps", l.attribute("eps"), 1e-5), option("elementwise_affine", affine, true),
           option("bias", !affine || !l.absent("bias"), true)}};
}

LayerArguments rms_norm_arguments(const LayerCall& l) {
  const auto shape = normalized_shape_argument(l);
  if (!shape || !l.is_own_or_absent("weight")) return {};
  return {{*shape, option("eps", l.attribute("eps"), Attribute{}), option("elementwise_affine", !l.absent("weight"), true),
           option("compute_dtype", l.attribute("compute_dtype"), Attribute{}),
           option("round_before_weight", l.attribute("round_before_weight"), false),
           option("weight_offset", l.attribute("weight_offset"), 0.0)}};
}

// (x - mean) / root, then weight and bias, with the steps that people get wrong as parameters.
struct NormSteps {
  bool centres = true;       // x - mean
  bool unbiased = false;     // the variance divided by n - 1
  bool eps_outside = false;  // sqrt(var) + eps, not sqrt(var + eps)
};
ValueId normalised(Builder& b, ValueId x, const Ints& axes, double eps, const NormSteps& s) {
  const ValueId centred = s.centres ? b.sub(x, b.mean(x, axes)) : x;
  ValueId variance = b.mean(b.square(centred), axes);
  if (s.unbiased) {
    Dim count(1);
    for (const int64_t a : axes) count = count * b.shape(x)[a];
    variance = b.mul(variance, b.div(b.dim_value(count, b.dtype(x)), b.dim_value(count - Dim(1), b.dtype(x))));
  }
  if (s.eps_outside) return b.div(centred, b.add(b.sqrt(variance), eps));
  return b.mul(centred, b.rsqrt(b.add(variance, eps)));
}

void other_steps(Mistakes& m, bool centres) {
  const Call& c = m.call();
  const size_t axes_count = c.dims("normalized_shape").size();
  const double eps = c.has("eps") ? c.number("eps") : 1.1920929e-07;
  const double offset = c.op().attribute_index("weight_offset") >= 0 ? c.number("weight_offset") : 0;
  const auto rebuilt = [&](const char* kind, const char* now, const char* instead, NormSteps steps) {
    m.build(kind, now, instead, [axes_count, eps, offset, steps](const MistakeSite& site) {
      const ValueId x = site.b.widened(site.operands[0]);
      const auto given = [&](std::string_view name) {
        const ValueId o = site.operand(name);
        if (o == kNoValue) return std::optional<ValueId>();
        return std::optional<ValueId>(offset != 0 && name == "weight" ? site.b.add(o, offset) : o);
      };
      const ValueId normal = normalised(site.b, x, last_axes(site.b.rank(x), axes_count), eps, steps);
      return Values{site.b.narrowed(site.b.affine(normal, given("weight"), given("bias")), site.b.dtype(site.operands[0]))};
    });
  };
  rebuilt("epsilon place", "epsilon inside the root", "epsilon outside the root", {centres, false, true});
  if (centres) {
    rebuilt("variance", "the biased variance", "the unbiased variance", {true, true, false});
    rebuilt("norm kind", "a layer norm", "an RMS norm (no mean subtracted)", {false, false, false});
  } else {
    rebuilt("norm kind", "an RMS norm", "a layer norm (the mean subtracted)", {true, false, false});
  }
}

// ---- the ops

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
                 .aligned(along_all_but_normalized)
                 .one_kernel()
                 .from_aten("aten.layer_norm.default(x, normalized_shape, weight, bias, eps, _)",
                            discard("cudnn_enable: no effect on values"))
                 .sample("F.layer_norm(t(2, 3, 4), [4], t(4), t(4), 1e-3)")
                 .sample("F.layer_norm(t(2, 3, 4), [3, 4], t(3, 4))")
                 .sample("F.layer_norm(t(2, 3, 4), [4], None, t(4))")
                 .sample("F.layer_norm(t(2, 3, 4) * 100 + 1000, [4])")
                 .sample("F.layer_norm(t(2, 3, 4, dtype=torch.bfloat16), [4], t(4), t(4))")
                 .sample("F.layer_norm(t(0, 4), [4], t(4), t(4))")
                 .recognised_at({"add", "mul", "div", "cast"}, propose_layer_norm)
                 .spelled_torch("F.layer_norm({x}, {normalized_shape}, {weight}, {bias}, {eps})")
                 .nn("LayerNorm", layer_norm_arguments)
                 .member("norm")
                 .results({"normed"})
                 .mistakes([](Mistakes& m) { other_steps(m, true); })
                 .mistakes(affine_mistakes)
                 .mistakes(other_epsilon);
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
      .sample("torch.native_layer_norm(t(2, 3, 4), [3, 4], None, None, 1e-5)");
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

std::vector<Proposal> propose_rms_norm(const Fragment& r) {
  const auto norm = read_norm(r);
  if (!norm || norm->bias != kNoValue) return {};
  const DType computed = r.type(norm->core).dtype;
  return norm_calls(r, *norm, [&](ValueId x) {
    const DType dtype = r.type(x).dtype;
    return Proposal{{x, norm->weight},
                    {{"normalized_shape", last_dims(r.shape(x), norm->axes.size())},
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
          .aligned(along_all_but_normalized)
          .one_kernel()
          .from_aten("aten.rms_norm.default(x, normalized_shape, weight, eps)")
          .sample("F.rms_norm(t(2, 3, 4), [4], t(4), 1e-3)")
          .sample("F.rms_norm(t(2, 3, 4) * 1e-4, [3, 4])")
          .sample("F.rms_norm(t(2, 3, 4), [4], t(4))")
          .recognised_at({"mul", "div", "cast"}, propose_rms_norm)
          .spelled_torch("F.rms_norm({x}, {normalized_shape}, {weight}, {eps})",
                         [](const Call& c) { return !c.has("compute_dtype") && c.number("weight_offset") == 0; })
          .nn("RMSNorm", rms_norm_arguments)
          .member("norm")
          .results({"normed"})
          .mistakes([](Mistakes& m) { other_steps(m, false); })
          .mistakes(affine_mistakes)
          .mistakes(other_epsilon);
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
      .sample("torch.ops.aten._fused_rms_norm(t(2, 3, 4), [4], t(4), 1e-3)");
}

}  // namespace

std::vector<OpDef> layer_norm_ops() { return {layer_norm(), native_layer_norm(), rms_norm(), fused_rms_norm()}; }

}  // namespace pycandle
