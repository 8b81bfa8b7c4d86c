// Layers: norms, activations, linear, convolutions, pools, attention, recurrent.
#include <fmt/format.h>

#include <cmath>

#include "verify/diagnosing/variants.h"

namespace pycandle {
namespace {

const std::vector<double> kEpsilons{1e-12, 1e-10, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1};
const std::vector<double> kFactors{0.01, 0.03, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 100};

ValueId transposed(Builder& b, ValueId v) { return b.swap_axes(v, -2, -1); }
bool is_square(const Variants& v, const Shape& s) { return s.size() >= 2 && v.size(s[s.size() - 1]) == v.size(s[s.size() - 2]); }

// The chunks of an axis in another order.
ValueId reordered(Builder& b, ValueId x, int64_t axis, const Ints& order) {
  const Dim size = floordiv(b.shape(x)[axis], Dim(static_cast<int64_t>(order.size())));
  Values parts;
  for (int64_t i : order) parts.push_back(b.slice(x, axis, size * Dim(i), size * Dim(i + 1)));
  return b.concat(parts, axis);
}

// ---- norms

// (x - mean) / root, then weight and bias, with the steps that people get wrong as parameters.
struct NormSteps {
  bool centres = true;       // x - mean
  bool unbiased = false;     // the variance divided by n - 1
  bool eps_outside = false;  // sqrt(var) + eps, not sqrt(var + eps)
};
ValueId normalised(Builder& b, ValueId x, const Ints& axes, Dim count, double eps, const NormSteps& s) {
  const ValueId centred = s.centres ? b.sub(x, b.mean(x, axes)) : x;
  ValueId variance = b.mean(b.square(centred), axes);
  if (s.unbiased) {
    const ValueId n = b.dim_value(count, b.dtype(x)), less = b.dim_value(count - Dim(1), b.dtype(x));
    variance = b.mul(variance, b.div(n, less));
  }
  if (s.eps_outside) return b.div(centred, b.add(b.sqrt(variance), eps));
  return b.mul(centred, b.rsqrt(b.add(variance, eps)));
}

void last_axes_norm(Variants& v, bool centres) {
  const Call& c = v.call();
  const size_t axes_count = c.dims("normalized_shape").size();
  const double eps = c.has("eps") ? c.number("eps") : 1.1920929e-07;
  const double offset = c.op().attribute_index("weight_offset") >= 0 ? c.number("weight_offset") : 0;
  const auto rebuilt = [&](const char* kind, const char* now, const char* instead, NormSteps steps) {
    v.build(kind, now, instead, [axes_count, eps, offset, steps](const VariantSite& m) {
      const ValueId x = m.b.widened(m.operands[0]);
      const Ints axes = last_axes(m.b.rank(x), axes_count);
      Dim count(1);
      for (int64_t a : axes) count = count * m.b.shape(x)[a];
      const auto given = [&](const char* name) {
        const ValueId o = m.operand(name);
        if (o == kNoValue) return std::optional<ValueId>();
        return std::optional<ValueId>(offset != 0 && name == std::string_view("weight") ? m.b.add(o, offset) : o);
      };
      const ValueId y = m.b.affine(normalised(m.b, x, axes, count, eps, steps), given("weight"), given("bias"));
      return Values{m.b.narrowed(y, m.b.dtype(m.operands[0]))};
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

void affine_parts(Variants& v) {
  v.without("missing weight", "weight", "weight");
  v.without("missing bias", "bias", "bias");
  v.operand("weight offset", "weight", "the weight", "one plus the weight", [](Builder& b, ValueId w) { return b.add(w, 1.0); });
  v.operand("weight offset", "weight", "the weight", "the weight less one", [](Builder& b, ValueId w) { return b.sub(w, 1.0); });
}

void layer_norm(Variants& v) {
  last_axes_norm(v, true);
  affine_parts(v);
  v.number("epsilon", "eps", "an epsilon", kEpsilons);
}

void rms_norm(Variants& v) {
  last_axes_norm(v, false);
  affine_parts(v);
  v.number("epsilon", "eps", "an epsilon", kEpsilons);
}

void batch_norm(Variants& v) {
  affine_parts(v);
  const double eps = v.call().number("eps");
  const auto with_statistics = [](const VariantSite& m, auto&& scale) {
    Shape column(static_cast<size_t>(m.b.rank(m.operands[0])), Dim(1));
    column[1] = m.b.shape(m.operand("mean"))[0];
    const auto across = [&](ValueId x) { return m.b.reshape(x, column); };
    ValueId y = m.b.mul(m.b.sub(m.operands[0], across(m.operand("mean"))), across(scale(m.b, m.operand("var"))));
    if (m.operand("weight") != kNoValue) y = m.b.mul(y, across(m.operand("weight")));
    if (m.operand("bias") != kNoValue) y = m.b.add(y, across(m.operand("bias")));
    return Values{y};
  };
  v.build("epsilon place", "epsilon inside the root", "epsilon outside the root", [=](const VariantSite& m) {
    return with_statistics(m, [&](Builder& b, ValueId var) { return b.unary("reciprocal", b.add(b.sqrt(var), eps)); });
  });
  v.build("variance", "the variance", "the variance without its root", [=](const VariantSite& m) {
    return with_statistics(m, [&](Builder& b, ValueId var) { return b.unary("reciprocal", b.add(var, eps)); });
  });
  v.operand("stale buffer", "mean", "the running mean", "a running mean of zero",
            [](Builder& b, ValueId x) { return b.like(x, 0.0); });
  v.operand("stale buffer", "var", "the running variance", "a running variance of one",
            [](Builder& b, ValueId x) { return b.like(x, 1.0); });
  v.number("epsilon", "eps", "an epsilon", kEpsilons);
}

void group_norm(Variants& v) {
  affine_parts(v);
  if (v.call().op().attribute_index("groups") >= 0) {
    const int64_t channels = v.size(v.call().shape("x")[1]), now = v.call().integer("groups");
    for (int64_t groups = 1; groups <= channels; groups *= 2) {
      if (groups != now && channels % groups == 0) {
        v.attribute("groups", "groups", groups, fmt::format("{} groups", now), fmt::format("{} groups", groups));
      }
    }
  }
  v.number("epsilon", "eps", "an epsilon", kEpsilons);
}

// ---- activations

void activation(Variants& v) {
  const Call& c = v.call();
  const std::string& op = c.op().name;
  const bool is_gelu = op == "gelu" || op == "quick_gelu";
  std::string now = op;
  for (const Activation& f : activations()) {
    if (f.op == op && (op != "gelu" || std::get<std::string>(f.attributes[0].second) == c.string("approximate"))) now = f.text;
  }
  for (const Activation& f : activations()) {
    const bool other_is_gelu = std::string_view(f.text).find("GELU") != std::string_view::npos;
    if (f.text != now) v.other_op(is_gelu && other_is_gelu ? "gelu form" : "activation", f.op, f.attributes, now, f.text);
  }
  v.build("activation", now, "no activation", [](const VariantSite& m) { return Values{m.operands[0]}; });
  if (op == "leaky_relu") v.number("slope", "negative_slope", "a slope", {0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5});
  if (op == "elu") v.number("slope", "alpha", "an alpha", kFactors);
}

// ---- products

void linear(Variants& v) {
  const Call& c = v.call();
  v.without("missing bias", "bias", "bias");
  if (is_square(v, c.shape("weight")))
    v.operand("transposed weight", "weight", "the weight", "the weight transposed", transposed);
  v.operand("doubled bias", "bias", "the bias", "twice the bias", [](Builder& b, ValueId x) { return b.mul(x, 2.0); });
  const int64_t out = v.size(v.call().shape("weight")[c.string("weight_order") == "out_in" ? 0 : 1]);
  const std::vector<std::pair<int64_t, std::vector<Ints>>> orders{{2, {{1, 0}}},
                                                                  {3, {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}}};
  for (const auto& [parts, all] : orders) {
    if (out % parts != 0 || out == parts) continue;
    for (const Ints& order : all) {
      v.result("part order", "its outputs as they are", fmt::format("its {} parts in the order {}", parts, fmt::join(order, " ")),
               [order = order](Builder& b, ValueId y) { return reordered(b, y, b.rank(y) - 1, order); });
    }
  }
}

void matmul(Variants& v) {
  for (const char* side : {"left", "right"}) {
    if (is_square(v, v.call().shape(side)))
      v.operand("transposed operand", side, fmt::format("the {} operand", side), fmt::format("the {} operand transposed", side),
                transposed);
  }
  if (v.call().op().attribute_index("alpha") >= 0) {
    v.number("scale", "alpha", "an alpha", kFactors);
    v.number("scale", "beta", "a beta", kFactors);
  }
}

void low_precision(Variants& v) {
  if (v.call().graph().type(v.call().value(v.call().op().operand_specs[0].name)).dtype != DType::f32) return;
  for (const DType d : {DType::bf16, DType::f16}) {
    Variant low{"accumulation dtype", "operands in f32", fmt::format("operands rounded to {}", name_of(d)), {}, {}, true};
    low.build = [d](const VariantSite& m) {
      Values rounded = m.operands;
      for (ValueId& o : rounded) {
        if (o != kNoValue && m.b.dtype(o) == DType::f32) o = m.b.cast(m.b.cast(o, d), DType::f32);
      }
      return m.same(std::move(rounded));
    };
    v.add(std::move(low));
  }
}

// ---- convolutions and pools

// Of the last axes.
ValueId padded(Builder& b, ValueId x, const char* mode, const Ints& low, const Ints& high) {
  const size_t others = static_cast<size_t>(b.rank(x)) - low.size();
  Dims l(others, Dim(0)), h(others, Dim(0));
  l.insert(l.end(), low.begin(), low.end());
  h.insert(h.end(), high.begin(), high.end());
  if (std::string_view(mode) == "zeros") return b.pad(x, l, h, 0.0);
  return b.create(mode, {x}, {{"low", l}, {"high", h}});
}

// With the padding that keeps the size.
void other_dilation(Variants& v, const Ints& dilation, const Ints& padding) {
  const int64_t now = dilation.empty() ? 1 : dilation[0];
  const auto is_all_now = [&](int64_t d) { return d == now; };
  if (!std::all_of(dilation.begin(), dilation.end(), is_all_now)) return;
  for (const int64_t other : {1, 2, 3, 4}) {
    if (other == now || std::any_of(padding.begin(), padding.end(), [&](int64_t p) { return p * other % now != 0; })) continue;
    v.build("dilation", fmt::format("a dilation of {}", now), fmt::format("a dilation of {}", other), [=](const VariantSite& m) {
      Attributes attributes = m.node.attributes;
      for (auto& [name, value] : attributes) {
        if (name == "dilation") value = Ints(dilation.size(), other);
        if (name != "padding") continue;
        Ints kept = padding;
        for (int64_t& p : kept) p = p * other / now;
        value = kept;
      }
      return m.same(m.operands, attributes);
    });
  }
}

void convolution(Variants& v) {
  const Call& c = v.call();
  v.without("missing bias", "bias", "bias");
  const auto n = static_cast<int64_t>(c.integers("stride").size());
  if (n == 2 && is_square(v, c.shape("weight")))
    v.operand("transposed weight", "weight", "the kernel", "the kernel transposed", transposed);
  v.operand("flipped kernel", "weight", "the kernel", "the kernel flipped", [n](Builder& b, ValueId w) {
    Ints axes;
    for (int64_t i = 0; i < n; ++i) axes.push_back(b.rank(w) - 1 - i);
    return b.reverse(w, axes);
  });
  const Ints padding = c.integers("padding");
  other_dilation(v, c.integers("dilation"), padding);
  const bool pads = std::any_of(padding.begin(), padding.end(), [](int64_t p) { return p > 0; });
  if (!pads || (c.op().attribute_index("same") >= 0 && c.boolean("same")) || c.op().attribute_index("output_padding") >= 0)
    return;
  const auto with_padding = [&](const char* kind, const char* now, const std::string& instead, const char* mode, int64_t shift) {
    v.build(kind, now, instead, [padding, mode, shift](const VariantSite& m) {
      Ints low = padding, high = padding;
      for (size_t i = 0; i < low.size(); ++i) {
        low[i] += shift;
        high[i] -= shift;
      }
      Attributes attributes = m.node.attributes;
      for (auto& [name, value] : attributes) {
        if (name == "padding") value = Ints(padding.size(), 0);
      }
      return m.same(m.with_operand("x", padded(m.b, m.operand("x"), mode, low, high)), attributes);
    });
  };
  with_padding("padding mode", "padding with zeros", "padding by reflection", "reflection_pad", 0);
  with_padding("padding mode", "padding with zeros", "padding by the nearest", "replication_pad", 0);
  with_padding("padding mode", "padding with zeros", "circular padding", "circular_pad", 0);
  with_padding("padding side", "padding on both sides", "the padding one to the front", "zeros", 1);
  with_padding("padding side", "padding on both sides", "the padding one to the back", "zeros", -1);
}

void pool(Variants& v) {
  const Call& c = v.call();
  v.flag("ceil mode", "ceil_mode", "ceil_mode", "no ceil_mode");
  if (c.op().attribute_index("count_include_pad") >= 0) {
    v.flag("count include pad", "count_include_pad", "padding counted", "padding not counted");
  }
  const std::string& op = c.op().name;
  const bool is_average = op.rfind("avg_", 0) == 0;
  if (op.find("with_indices") != std::string::npos) return;
  Attributes attributes;
  for (const char* name : {"kernel_size", "stride", "padding", "ceil_mode"}) attributes.emplace_back(name, c.attribute(name));
  v.other_op("pool kind", (is_average ? "max" : "avg") + op.substr(3), attributes, is_average ? "average pooling" : "max pooling",
             is_average ? "max pooling" : "average pooling");
}

void adaptive_pool(Variants& v) {
  const std::string& op = v.call().op().name;
  const bool is_average = op.find("_avg_") != std::string::npos;
  std::string other = op;
  other.replace(other.find(is_average ? "avg" : "max"), 3, is_average ? "max" : "avg");
  v.other_op("pool kind", other, {{"output_size", v.call().attribute("output_size")}},
             is_average ? "average pooling" : "max pooling", is_average ? "max pooling" : "average pooling");
}

void interpolation(Variants& v) {
  v.flag("align corners", "align_corners", "align_corners", "no align_corners");
  v.choice("interpolation mode", "mode",
           {{"nearest", "nearest"}, {"nearest-exact", "nearest-exact"}, {"linear", "linear"}, {"cubic", "cubic"}});
}

void grid_sampling(Variants& v) {
  v.flag("align corners", "align_corners", "align_corners", "no align_corners");
  if (v.call().op().name != "grid_sample") return;
  v.choice("interpolation mode", "mode", {{"bilinear", "bilinear"}, {"nearest", "nearest"}, {"bicubic", "bicubic"}});
  v.choice("padding mode", "padding",
           {{"zeros", "padding with zeros"}, {"border", "padding by the border"}, {"reflection", "padding by reflection"}});
}

// ---- attention

void attention(Variants& v) {
  const Call& c = v.call();
  v.flag("causal", "is_causal", "causal attention", "attention that is not causal");
  v.swapped("operand order", "key", "value", "keys and values as they are", "keys and values swapped");
  v.swapped("operand order", "query", "key", "queries and keys as they are", "queries and keys swapped");
  v.without("missing mask", "attn_mask", "mask");
  v.without("missing mask", "key_mask", "mask of keys");
  const auto inverted = [](Builder& b, ValueId m) { return b.dtype(m) == DType::boolean ? b.logical_not(m) : b.neg(m); };
  v.operand("mask sign", "attn_mask", "the mask", "the mask inverted", inverted);
  v.operand("mask sign", "key_mask", "the mask of keys", "the mask of keys inverted", inverted);
  v.flag("eager attention", "eager", "attention rounded at every step", "fused attention");
  if (c.rank("query") >= 3) {
    v.result("head order", "the heads in their order", "the heads in reverse",
             [](Builder& b, ValueId y) { return b.reverse(y, {b.rank(y) - 3}); });
    const auto heads = [&](const char* name) { return v.size(c.shape(name)[c.shape(name).size() - 3]); };
    const int64_t repeats = heads("key") == 0 ? 1 : heads("query") / heads("key");
    if (repeats > 1) {  // query head h attends to key head h / repeats, not h % keys
      v.build("head order", "heads of keys repeated one by one", "heads of keys repeated as a whole",
              [repeats](const VariantSite& m) {
                Values operands = m.operands;
                for (size_t i : {1, 2})
                  operands[i] = m.b.concat(Values(static_cast<size_t>(repeats), operands[i]), m.b.rank(operands[i]) - 3);
                return m.same(operands);
              });
    }
  }
  const double width = static_cast<double>(v.size(c.shape("query").back()));
  for (const auto& [value, text] :
       std::vector<std::pair<double, const char*>>{{1, "no scale"},
                                                   {1 / std::sqrt(width), "a scale of one by the root of the width"},
                                                   {1 / width, "a scale of one by the width"}}) {
    const std::string now = c.has("scale") ? fmt::format("a scale of {:.6g}", c.number("scale"))
                                           : "a scale of one by the root of the width";
    if (now != text) v.attribute("scale", "scale", value, now, text);
  }
  v.number("scale", "scale", "a scale", {0.001, 0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 4, 10});
}

void split_heads(Variants& v) {
  const int64_t heads = v.size(v.call().dim("heads"));
  v.build("head split order", "heads, then their width", "width, then heads", [heads](const VariantSite& m) {
    Shape split = m.b.shape(m.operands[0]);
    const Dim width = floordiv(split.back(), Dim(heads));
    split.back() = width;
    split.push_back(Dim(heads));
    const ValueId y = m.b.reshape(m.operands[0], split);  // […, length, width, heads]
    const int64_t rank = m.b.rank(y);
    Ints order;
    for (int64_t i = 0; i < rank - 3; ++i) order.push_back(i);
    for (int64_t i : {rank - 1, rank - 3, rank - 2}) order.push_back(i);
    return Values{m.b.transpose(y, order)};
  });
  v.result("head order", "the heads in their order", "the heads in reverse",
           [](Builder& b, ValueId y) { return b.reverse(y, {b.rank(y) - 3}); });
}

void merge_heads(Variants& v) {
  v.build("head split order", "heads, then their width", "width, then heads", [](const VariantSite& m) {
    const int64_t rank = m.b.rank(m.operands[0]);
    Ints order;
    for (int64_t i = 0; i < rank - 3; ++i) order.push_back(i);
    for (int64_t i : {rank - 2, rank - 1, rank - 3}) order.push_back(i);
    const ValueId y = m.b.transpose(m.operands[0], order);
    Shape merged = m.b.shape(y);
    const Dim last = merged.back();
    merged.pop_back();
    merged.back() = merged.back() * last;
    return Values{m.b.reshape(y, merged)};
  });
  v.operand("head order", "x", "the heads in their order", "the heads in reverse",
            [](Builder& b, ValueId x) { return b.reverse(x, {b.rank(x) - 3}); });
}

void rotary(Variants& v) {
  v.flag("rotary pairing", "interleaved", "neighbours paired (GPT-J)", "halves paired (Llama)");
  v.operand("rotary direction", "sin", "turning forwards", "turning backwards", [](Builder& b, ValueId x) { return b.neg(x); });
  v.swapped("operand order", "cos", "sin", "cosine and sine as they are", "cosine and sine swapped");
}

void softmax(Variants& v) {
  const Call& c = v.call();
  const int64_t rank = c.rank("x"), dim = c.integer("dim"), axis = dim < 0 ? dim + rank : dim;
  for (int64_t other = 0; other < rank; ++other) {
    if (other != axis) v.attribute("dim", "dim", other, fmt::format("dim {}", axis), fmt::format("dim {}", other));
  }
  const bool is_log = c.op().name == "log_softmax";
  v.other_op("log", is_log ? "softmax" : "log_softmax", {{"dim", axis}}, is_log ? "log softmax" : "softmax",
             is_log ? "softmax" : "log softmax");
  Variant scale{"scale", "the logits as they are", "logits times {}", {}, kFactors, false};
  scale.build = [](const VariantSite& m) { return m.same({m.b.mul(m.operands[0], m.number)}); };
  v.add(std::move(scale));
}

// ---- embeddings

void embedding(Variants& v) {
  const Call& c = v.call();
  const int64_t rows = v.size(c.shape("weight")[0]), width = v.size(c.shape("weight").back());
  for (const int64_t shift : {1, -1, 2, -2}) {
    v.operand("index offset", "indices", "its indices",
              fmt::format("its indices {} {}", shift > 0 ? "plus" : "minus", std::abs(shift)),
              [shift, rows](Builder& b, ValueId i) {
                const ValueId moved = b.add(i, b.full(shift, b.dtype(i)));
                return b.minimum(b.maximum(moved, b.full(int64_t{0}, b.dtype(i))), b.full(rows - 1, b.dtype(i)));
              });
  }
  const double root = std::sqrt(static_cast<double>(width));
  v.result("scale", "the embedding", "the embedding times the root of its width",
           [root](Builder& b, ValueId y) { return b.mul(y, root); });
}

// ---- recurrent

void recurrent(Variants& v) {
  const Call& c = v.call();
  const std::string& op = c.op().name;
  const size_t states = op == "lstm" ? 2 : 1, first = 1 + states;
  const int64_t gates = op == "lstm" ? 4 : op == "gru" ? 3 : 1;
  const size_t params = c.values("params").size(), directions = c.boolean("bidirectional") ? 2 : 1,
               runs = static_cast<size_t>(c.integer("num_layers")) * directions, each = runs == 0 ? 0 : params / runs;
  const auto gate_order = [&](const Ints& order, const char* now, const char* instead) {
    v.build("gate order", now, instead, [=](const VariantSite& m) {
      Values operands = m.operands;
      for (size_t i = first; i < operands.size(); ++i) {
        const size_t place = (i - first) % each;
        const bool projects = m.b.rank(operands[i]) == 2 && place + 1 == each && place >= 2;
        if (!projects) operands[i] = reordered(m.b, operands[i], 0, order);
      }
      return m.same(operands);
    });
  };
  if (gates == 4) {
    gate_order({0, 1, 3, 2}, "gates in the order i f g o", "gates in the order i f o g");
    gate_order({0, 2, 1, 3}, "gates in the order i f g o", "gates in the order i g f o");
    gate_order({1, 0, 2, 3}, "gates in the order i f g o", "gates in the order f i g o");
    gate_order({0, 3, 1, 2}, "gates in the order i f g o", "gates in the order i o f g");
  }
  if (gates == 3) {
    gate_order({1, 0, 2}, "gates in the order r z n", "gates in the order z r n");
    gate_order({0, 2, 1}, "gates in the order r z n", "gates in the order r n z");
  }
  if (directions == 2) {
    v.build("direction order", "forwards, then backwards", "backwards, then forwards", [=](const VariantSite& m) {
      Values operands = m.operands;
      for (size_t run = 0; run + 1 < runs; run += 2) {
        for (size_t i = 0; i < each; ++i) std::swap(operands[first + run * each + i], operands[first + (run + 1) * each + i]);
      }
      return m.same(operands);
    });
    v.result("direction order", "forwards, then backwards", "the outputs of the directions swapped",
             [](Builder& b, ValueId y) { return reordered(b, y, b.rank(y) - 1, {1, 0}); });
  }
  if (c.boolean("has_biases")) {
    for (const auto& [place, text] :
         std::vector<std::pair<size_t, const char*>>{{2, "bias of the input"}, {3, "bias of the state"}}) {
      v.build("missing bias", text, fmt::format("no {}", text), [=, place = place](const VariantSite& m) {
        Values operands = m.operands;
        for (size_t i = first + place; i < operands.size(); i += each) operands[i] = m.b.like(operands[i], 0.0);
        return m.same(operands);
      });
    }
  }
  if (gates == 1) {
    const bool is_tanh = op == "rnn_tanh";
    v.build("activation", is_tanh ? "tanh" : "ReLU", is_tanh ? "ReLU" : "tanh", [is_tanh](const VariantSite& m) {
      return m.b.create_all(is_tanh ? "rnn_relu" : "rnn_tanh", m.operands, m.node.attributes);
    });
  }
}

}  // namespace

const std::vector<Activation>& activations() {
  static const std::vector<Activation> all{{"relu", "ReLU", {}},
                                           {"relu6", "ReLU6", {}},
                                           {"gelu", "the erf GELU", {{"approximate", std::string("none")}}},
                                           {"gelu", "the tanh GELU", {{"approximate", std::string("tanh")}}},
                                           {"quick_gelu", "the sigmoid GELU", {}},
                                           {"silu", "SiLU", {}},
                                           {"sigmoid", "a sigmoid", {}},
                                           {"tanh", "tanh", {}},
                                           {"mish", "Mish", {}},
                                           {"hardswish", "hardswish", {}},
                                           {"hardsigmoid", "hardsigmoid", {}},
                                           {"elu", "ELU", {}},
                                           {"leaky_relu", "leaky ReLU", {{"negative_slope", 0.01}}},
                                           {"softplus", "softplus", {}},
                                           {"log_sigmoid", "log of a sigmoid", {}}};
  return all;
}

VariantTable layer_variants() {
  return {
      {{"layer_norm"}, layer_norm},
      {{"rms_norm"}, rms_norm},
      {{"batch_norm"}, batch_norm},
      {{"group_norm", "instance_norm"}, group_norm},
      {{"relu", "relu6", "gelu", "quick_gelu", "silu", "sigmoid", "tanh", "mish", "hardswish", "hardsigmoid", "elu", "leaky_relu",
        "softplus", "log_sigmoid"},
       activation},
      {{"linear"}, linear},
      {{"matmul", "addmm", "baddbmm"}, matmul},
      {{"conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"}, convolution},
      {{"max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d"}, pool},
      {{"adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_max_pool1d", "adaptive_max_pool2d"}, adaptive_pool},
      {{"interpolate"}, interpolation},
      {{"grid_sample", "affine_grid"}, grid_sampling},
      {{"scaled_dot_product_attention"}, attention},
      {{"split_heads"}, split_heads},
      {{"merge_heads"}, merge_heads},
      {{"rotary_embedding"}, rotary},
      {{"softmax", "log_softmax"}, softmax},
      {{"embedding"}, embedding},
      {{"lstm", "gru", "rnn_tanh", "rnn_relu"}, recurrent},
      {{"linear", "matmul", "conv1d", "conv2d", "conv3d", "scaled_dot_product_attention", "dot_general"}, low_precision},
  };
}

}  // namespace pycandle
