// ONNX's attention and what stands beside it in language models.
#include <cmath>

#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Query heads that share a key: [B, H, S, D] → [B, H * group, S, D], each head `group` times in a row.
ValueId repeated_heads(Builder& b, ValueId x, int64_t group) {
  if (group == 1) return x;
  const Shape s = b.shape(x);
  const ValueId wide = b.broadcast_to(b.unsqueeze(x, 2), {s[0], s[1], Dim(group), s[2], s[3]});
  return b.reshape(wide, {s[0], s[1] * Dim(group), s[2], s[3]});
}

// 0 where it may be seen, -inf elsewhere.
ValueId as_bias(Builder& b, ValueId seen, DType dtype) { return b.select(seen, b.full(0.0, dtype), b.full(-kInfinity, dtype)); }

ValueId causal_bias(Builder& b, Dim rows, Dim columns, Dim past, DType dtype) {
  const ValueId row = b.reshape(b.add(b.iota(rows), b.dim_value(past)), {rows, 1});
  return as_bias(b, b.compare("le", b.iota(columns), row), dtype);
}

struct AttentionInputs {
  ValueId q, k, v;
  bool is_packed = false;  // [B, S, H * D]
  int64_t group = 1;
  Dim past = 0;
};

AttentionInputs attention_inputs(AtenCall& c) {
  Builder& b = c.b;
  AttentionInputs a{c.tensor("Q"), c.tensor("K"), c.tensor("V")};
  a.is_packed = b.rank(a.q) == 3;
  const auto optional_count = [&](const char* name) { return c.is_none(name) ? int64_t{0} : c.integer(name); };
  const int64_t q_heads = optional_count("q_num_heads"), kv_heads = optional_count("kv_num_heads");
  if (a.is_packed) {
    c.expects(q_heads > 0 && kv_heads > 0, "numbers of heads for inputs of three axes");
    a.q = onnx_split_heads(b, a.q, q_heads);
    a.k = onnx_split_heads(b, a.k, kv_heads);
    a.v = onnx_split_heads(b, a.v, kv_heads);
  }
  c.expects(b.rank(a.q) == 4 && b.rank(a.k) == 4 && b.rank(a.v) == 4, "inputs of three or four axes");
  const auto past_key = c.maybe_tensor("past_key"), past_value = c.maybe_tensor("past_value");
  c.expects(past_key.has_value() == past_value.has_value(), "a past of keys and of values, or neither");
  if (past_key) {
    a.past = b.shape(*past_key)[2];
    a.k = b.concat({*past_key, a.k}, 2);
    a.v = b.concat({*past_value, a.v}, 2);
  }
  const auto heads = b.shape(a.q)[1].maybe_number(), shared = b.shape(a.k)[1].maybe_number();
  if (heads && shared) {
    c.expects(*shared > 0 && *heads % *shared == 0, "heads of queries that share heads of keys evenly");
    a.group = *heads / *shared;
  }
  return a;
}

// A mask that is shorter than the keys hides the rest.
ValueId to_length(Builder& b, ValueId mask, Dim length) {
  const Dim has = b.shape(mask).back();
  if (has == length || has == Dim(1)) return mask;
  Dims high(static_cast<size_t>(b.rank(mask)), Dim(0)), low = high;
  high.back() = length - has;
  return b.pad(mask, low, high, b.dtype(mask) == DType::boolean ? Scalar{false} : Scalar{-kInfinity});
}

ValueId softmax_in(Builder& b, ValueId x, DType dtype) {
  return b.create("softmax", {b.cast(x, dtype)}, {{"dim", b.rank(x) - 1}});
}

bool has_lengths(AtenCall& c) { return c.has_argument("nonpad_kv_seqlen") && !c.is_none("nonpad_kv_seqlen"); }

// By its formula: softcap, lengths, scores as an output, a mask beside is_causal.
Values written_out(AtenCall& c, const AttentionInputs& a, double scale, std::optional<ValueId> mask) {
  Builder& b = c.b;
  const DType dtype = b.dtype(a.q), wide = wide_of(dtype);
  const ValueId q = b.cast(a.q, wide), k = repeated_heads(b, b.cast(a.k, wide), a.group);
  const ValueId v = repeated_heads(b, b.cast(a.v, wide), a.group);
  const double root = std::sqrt(scale);
  ValueId scores = b.matmul(b.mul(q, root), b.transpose(b.mul(k, root), {0, 1, 3, 2}));
  const int64_t mode = c.integer("qk_matmul_output_mode");
  ValueId shown = scores;
  if (const double cap = c.number("softcap"); cap > 0) scores = b.mul(b.tanh(b.div(scores, cap)), cap);
  if (mode == 1) shown = scores;
  const Dim rows = b.shape(scores)[2], columns = b.shape(scores)[3];
  if (mask) {
    const ValueId all = to_length(b, *mask, columns);
    scores = b.add(scores, b.dtype(all) == DType::boolean ? as_bias(b, all, wide) : b.cast(all, wide));
  }
  if (c.integer("is_causal") != 0) scores = b.add(scores, causal_bias(b, rows, columns, a.past, wide));
  if (has_lengths(c)) {
    const ValueId lengths = c.tensor("nonpad_kv_seqlen");
    const ValueId each = b.reshape(b.cast(lengths, DType::i64), {b.shape(lengths)[0], 1, 1, 1});
    scores = b.add(scores, as_bias(b, b.compare("lt", b.iota(columns), each), wide));
  }
  if (mode == 2) shown = scores;
  const DType precision = maybe_onnx_dtype(c, "softmax_precision").value_or(wide);
  const ValueId weights = b.cast(softmax_in(b, scores, wide_of(precision)), wide);
  if (mode == 3) shown = weights;
  return {b.narrowed(b.matmul(weights, v), dtype), b.narrowed(shown, dtype)};
}

Values attention(AtenCall& c) {
  Builder& b = c.b;
  const AttentionInputs a = attention_inputs(c);
  const auto head_size = b.shape(a.q)[3].maybe_number();
  if (!head_size && c.is_none("scale")) c.unsupported("heads whose size is open");
  const double scale = c.is_none("scale") ? 1 / std::sqrt(static_cast<double>(*head_size)) : c.number("scale");
  const auto mask = c.maybe_tensor("attn_mask");
  const bool is_causal = c.integer("is_causal") != 0;
  const bool is_plain = c.number("softcap") == 0 && !has_lengths(c) && c.result_count() < 4 && !(is_causal && mask) &&
                        c.is_none("softmax_precision") && (!mask || b.shape(*mask).back() == b.shape(a.k)[2]);
  Values made;
  if (is_plain) {
    c.discard("qk_matmul_output_mode", "of an output that nobody reads");
    const auto bias = mask && b.dtype(*mask) != DType::boolean ? std::optional(b.cast(*mask, b.dtype(a.q))) : mask;
    made = {b.create("scaled_dot_product_attention", {a.q, a.k, a.v, bias.value_or(kNoValue), kNoValue, kNoValue, kNoValue},
                     {{"is_causal", is_causal}, {"scale", scale}, {"enable_gqa", a.group != 1}, {"query_offset", a.past}}),
            kNoValue};
  } else {
    made = written_out(c, a, scale, mask);
  }
  return {a.is_packed ? onnx_merge_heads(b, made[0]) : made[0], a.k, a.v, made[1]};
}

// ---- rotary positions

// x: [B, S, H, D]; cos and sin: [B, S, half] or [S, half].
ValueId rotated(Builder& b, ValueId x, ValueId cos, ValueId sin, int64_t turned, bool interleaved) {
  const Shape s = b.shape(x);
  const Dim size = s[3], part = turned == 0 ? size : Dim(turned), half = floordiv(part, Dim(2));
  const ValueId head = b.slice(x, 3, 0, part);
  ValueId left, right;
  if (interleaved) {
    left = b.slice(head, 3, 0, part, 2);
    right = b.slice(head, 3, 1, part, 2);
  } else {
    left = b.slice(head, 3, 0, half);
    right = b.slice(head, 3, half, part);
  }
  cos = b.unsqueeze(cos, b.rank(cos) - 1);
  sin = b.unsqueeze(sin, b.rank(sin) - 1);
  const ValueId real = b.sub(b.mul(cos, left), b.mul(sin, right)), imaginary = b.add(b.mul(sin, left), b.mul(cos, right));
  ValueId y = interleaved ? b.reshape(b.concat({b.unsqueeze(real, 4), b.unsqueeze(imaginary, 4)}, 4), {s[0], s[1], s[2], part})
                          : b.concat({real, imaginary}, 3);
  if (!(part == size)) y = b.concat({y, b.slice(x, 3, part, size)}, 3);
  return y;
}

ValueId rotary(AtenCall& c) {
  Builder& b = c.b;
  ValueId x = c.tensor(c.has_argument("X") ? "X" : "input");
  ValueId cos = c.tensor("cos_cache"), sin = c.tensor("sin_cache");
  if (c.has_argument("scale")) c.expects(c.number("scale") == 1.0, "a scale of 1");
  if (c.has_argument("is_packed_batching")) c.expects(c.integer("is_packed_batching") == 0, "batches that are not packed");
  const int64_t turned = c.integer("rotary_embedding_dim");
  const Shape shape = b.shape(x);
  const bool has_heads = shape.size() == 4;
  const int64_t heads = c.is_none("num_heads") ? 0 : c.integer("num_heads");
  if (has_heads) {
    x = b.transpose(x, {0, 2, 1, 3});
  } else {
    Dim size = heads > 0 ? floordiv(shape.at(2), Dim(heads)) : b.shape(cos).back() * Dim(2);
    x = b.reshape(x, {shape[0], shape[1], floordiv(shape.at(2), size), size});
  }
  const Dim length = b.shape(x)[1];
  if (const auto positions = c.maybe_tensor("position_ids")) {
    ValueId at = b.cast(*positions, DType::i64);
    if (b.rank(at) == 1) at = b.add(b.reshape(at, {b.shape(at)[0], 1}), b.iota(length));  // where each sequence begins
    cos = b.create("take", {cos, at}, {{"axis", int64_t{0}}});
    sin = b.create("take", {sin, at}, {{"axis", int64_t{0}}});
  }
  const DType dtype = b.dtype(x);
  const ValueId y = b.narrowed(rotated(b, b.widened(x), b.widened(cos), b.widened(sin), turned, c.integer("interleaved") != 0),
                               dtype);
  return has_heads ? b.transpose(y, {0, 2, 1, 3}) : b.reshape(y, shape);
}

// ---- caches that are written in place

// past[..., write + i, ...] = update[..., i, ...], for each entry of the batch where it says.
ValueId cache_written(AtenCall& c) {
  Builder& b = c.b;
  const ValueId past = c.tensor("past_cache"), update = c.tensor("update");
  const int64_t axis = b.normal_axis(c.integer("axis"), b.rank(past));
  const std::string mode = c.string("mode");
  c.expects(axis != 0, "an axis other than the batch");
  if (mode != "linear" && mode != "circular") c.unsupported("mode='" + mode + "'");
  const Dim length = b.shape(update)[axis], size = b.shape(past)[axis], batch = b.shape(past)[0];
  ValueId at = b.reshape(b.iota(length), {1, length});
  if (const auto starts = c.maybe_tensor("write_indices")) at = b.add(at, b.reshape(b.cast(*starts, DType::i64), {batch, 1}));
  if (mode == "circular") at = b.create("remainder", {at, b.broadcast_to(b.dim_value(size), b.shape(at))});
  Shape shape(static_cast<size_t>(b.rank(past)), Dim(1));
  shape[0] = b.shape(at)[0];
  shape[axis] = length;
  const ValueId index = b.broadcast_to(b.reshape(at, shape), b.shape(update));
  return b.create("scatter", {past, index, update}, {{"axis", axis}, {"reduce", std::string("none")}, {"include_self", true}});
}

// Each channel alone, over this position and those before it; the last ones are kept for the next call.
Values causal_convolution(AtenCall& c) {
  Builder& b = c.b;
  const ValueId x = c.tensor("input"), weight = c.tensor("weight");
  const auto reach = b.shape(weight).at(2).maybe_number(), channels = b.shape(weight)[0].maybe_number();
  if (!reach || !channels) c.unsupported("a kernel whose size is open");
  const Dim length = b.shape(x).at(2), before = *reach - 1;
  const auto past = c.maybe_tensor("past_state");
  const ValueId state = past ? *past : b.full(0.0, b.dtype(x), {b.shape(x)[0], b.shape(x)[1], before});
  const ValueId all = b.concat({state, x}, 2);
  const auto bias = c.maybe_tensor("bias");
  ValueId y = b.create("conv1d", {all, weight, bias.value_or(kNoValue)}, {{"groups", *channels}});
  const std::string activation = c.string("activation");
  if (activation == "silu" || activation == "swish")
    y = b.create("silu", {y});
  else if (activation != "none")
    c.unsupported("activation='" + activation + "'");
  return {y, b.slice(all, 2, length, length + before)};
}

// ---- linear attention: a state of [d_k, d_v] for each head, changed by every token

struct LinearStep {
  std::string rule;
  bool decays, corrects;
};

// State S, and one token's k [B, H, d_k], v [B, H, d_v], decay and rate → S after it.
ValueId next_state(Builder& b, const LinearStep& rule, ValueId s, ValueId k, ValueId v, ValueId decay, ValueId rate) {
  if (rule.decays) s = b.mul(s, b.exp(b.unsqueeze(decay, 3)));
  if (rule.corrects) {
    const ValueId found = b.squeeze(b.matmul(b.unsqueeze(k, 2), s), 2);
    v = b.mul(b.sub(v, found), rate);
  }
  return b.add(s, b.mul(b.unsqueeze(k, 3), b.unsqueeze(v, 2)));
}

Values linear_attention(AtenCall& c) {
  Builder& b = c.b;
  const int64_t q_heads = c.integer("q_num_heads"), heads = c.integer("kv_num_heads");
  c.discard("chunk_size", "how the work is divided");
  c.expects(q_heads > 0 && heads > 0 && q_heads % heads == 0, "heads of queries that share heads of keys evenly");
  const LinearStep rule{c.string("update_rule"), c.string("update_rule").starts_with("gated"),
                        c.string("update_rule").ends_with("delta")};
  if (rule.rule != "linear" && rule.rule != "gated" && rule.rule != "delta" && rule.rule != "gated_delta")
    c.unsupported("update_rule='" + rule.rule + "'");
  const DType dtype = b.dtype(c.tensor("query")), wide = wide_of(dtype);
  const auto split = [&](ValueId x, int64_t n) {  // [B, T, n * D] → [T, B, n, D]
    const Shape s = b.shape(x);
    return b.transpose(b.reshape(b.cast(x, wide), {s[0], s[1], Dim(n), floordiv(s[2], Dim(n))}), {1, 0, 2, 3});
  };
  const ValueId q = split(c.tensor("query"), q_heads), k = split(c.tensor("key"), heads), v = split(c.tensor("value"), heads);
  const Shape ks = b.shape(k), vs = b.shape(v);
  Values xs{q, k, v};
  if (rule.decays) {
    c.expects(c.maybe_tensor("decay").has_value(), "a decay for this rule");
    xs.push_back(split(c.tensor("decay"), heads));  // [T, B, H, d_k or 1]
  } else {
    c.maybe_tensor("decay");
  }
  if (rule.corrects) {
    c.expects(c.maybe_tensor("beta").has_value(), "a beta for this rule");
    const ValueId beta = c.tensor("beta");
    const bool is_shared = b.shape(beta).at(2) == Dim(1);
    xs.push_back(split(beta, is_shared ? 1 : heads));
  } else {
    c.maybe_tensor("beta");
  }
  const auto past = c.maybe_tensor("past_state");
  const DType state_type = past ? b.dtype(*past) : dtype;
  const ValueId state = past ? b.cast(*past, wide) : b.full(0.0, wide, {ks[1], ks[2], ks[3], vs[3]});
  const auto size = b.shape(q)[3].maybe_number();
  double scale = c.number("scale");
  if (scale == 0 && !size) c.unsupported("heads whose size is open");
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(*size));
  Graph body;
  Builder inner = b.region(body);
  const ValueId before = body.add_input(b.type(state));
  Values now;
  for (const ValueId x : xs) {
    Type type = b.type(x);
    type.shape.erase(type.shape.begin());
    now.push_back(body.add_input(type));
  }
  const ValueId decay = rule.decays ? now[3] : kNoValue, rate = rule.corrects ? now.back() : kNoValue;
  const ValueId after = next_state(inner, rule, before, now[1], now[2], decay, rate);
  const ValueId seen = inner.matmul(inner.unsqueeze(now[0], 2), repeated_heads(inner, after, q_heads / heads));
  body.outputs = {after, inner.mul(inner.squeeze(seen, 2), scale)};
  std::vector<Graph> regions;
  regions.push_back(std::move(body));
  Values values{state};
  values.insert(values.end(), xs.begin(), xs.end());
  const Values made = b.create_all("scan", values, {{"carries", int64_t{1}}, {"length", ks[0]}, {"reverse", false}},
                                   std::move(regions));
  const ValueId y = b.reshape(b.transpose(made[1], {1, 0, 2, 3}), {ks[1], ks[0], Dim(q_heads) * vs[3]});
  return {b.cast(y, dtype), b.cast(made[0], state_type)};
}

}  // namespace

std::vector<OpDef> attention_onnx_ops() {
  return {onnx_mapped_all("scaled_dot_product_attention",
                          {"onnx.Attention.23(Q, K, V, attn_mask?, past_key?, past_value?; is_causal=0, kv_num_heads=none, "
                           "q_num_heads=none, qk_matmul_output_mode=0, scale=none, softcap=0.0, softmax_precision=none)",
                           "onnx.Attention.24(Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen?; is_causal=0, "
                           "kv_num_heads=none, q_num_heads=none, qk_matmul_output_mode=0, scale=none, softcap=0.0, "
                           "softmax_precision=none)"},
                          attention),
          onnx_mapped("rotary_embedding",
                      {"onnx.RotaryEmbedding.23(X, cos_cache, sin_cache, position_ids?; interleaved=0, num_heads=none, "
                       "rotary_embedding_dim=0)",
                       "onnx.com.microsoft.RotaryEmbedding.1(input, position_ids, cos_cache, sin_cache; interleaved=0, "
                       "is_packed_batching=0, num_heads=0, rotary_embedding_dim=0, scale=1.0)"},
                      rotary),
          onnx_mapped("scatter", {"onnx.TensorScatter.24(past_cache, update, write_indices?; axis=-2, mode=\"linear\")"},
                      cache_written),
          onnx_mapped_all("conv1d", {"onnx.CausalConvWithState.27(input, weight, bias?, past_state?; activation=\"none\")"},
                          causal_convolution),
          onnx_mapped_all("scan",
                          {"onnx.LinearAttention.27(query, key, value, past_state?, decay?, beta?; chunk_size=64, kv_num_heads!, "
                           "q_num_heads!, scale=0.0, update_rule=\"gated_delta\")"},
                          linear_attention)};
}

}  // namespace pycandle
