// com.microsoft: attention as graph optimisers and the model builder of ONNX Runtime write it.
#include <cmath>

#include "ops/core/onnx_helpers.h"

namespace pycandle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

int64_t heads_of(AtenCall& c, const char* name) {
  const int64_t heads = c.integer(name);
  c.expects(heads > 0, "a positive number of heads");
  return heads;
}

ValueId bias_where(Builder& b, ValueId hidden, double low, DType dtype) {
  return b.select(hidden, b.full(low, dtype), b.full(0.0, dtype));
}

ValueId sum_of(Builder& b, std::optional<ValueId> a, ValueId c) { return a ? b.add(*a, c) : c; }

struct Heads {
  ValueId q, k, v;  // [batch, heads, length, size]
};

ValueId attended(AtenCall& c, const Heads& h, std::optional<ValueId> mask, const Attributes& more) {
  Builder& b = c.b;
  const auto size = b.shape(h.q)[3].maybe_number();
  double scale = c.is_none("scale") ? 0 : c.number("scale");
  if (scale == 0 && !size) c.unsupported("heads whose size is open");
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(*size));
  Attributes attributes{{"scale", scale}};
  attributes.insert(attributes.end(), more.begin(), more.end());
  return onnx_merge_heads(b, b.create("scaled_dot_product_attention",
                                      {h.q, h.k, h.v, mask.value_or(kNoValue), kNoValue, kNoValue, kNoValue}, attributes));
}

// [batch, keys] of 1 and 0, or [batch, queries, keys]: what the scores get. Lengths of each sequence alone: [batch].
std::optional<ValueId> padding_bias(AtenCall& c, const char* name, Dim keys, DType dtype) {
  Builder& b = c.b;
  const auto mask = c.maybe_tensor(name);
  const double low = c.number("mask_filter_value");
  if (!mask) return std::nullopt;
  const Shape s = b.shape(*mask);
  if (s.size() == 1) {
    const ValueId length = b.reshape(b.cast(*mask, DType::i64), {s[0], 1, 1, 1});
    return bias_where(b, b.compare("ge", b.iota(keys), length), low, dtype);
  }
  if (s.size() > 3) c.unsupported("a mask of four axes");
  const ValueId hidden = b.compare("eq", *mask, 0.0);
  return bias_where(b, b.reshape(hidden, s.size() == 2 ? Shape{s[0], 1, 1, s[1]} : Shape{s[0], 1, s[1], s[2]}), low, dtype);
}

std::optional<ValueId> added_bias(AtenCall& c, std::optional<ValueId> mask) {
  const auto bias = c.maybe_tensor("attention_bias");
  return bias ? std::optional(sum_of(c.b, mask, *bias)) : mask;
}

// ---- MultiHeadAttention

// [batch, length, heads * size] plus its part of the bias, or heads that are apart already.
ValueId projected_heads(AtenCall& c, ValueId x, int64_t heads, std::optional<ValueId> bias, Dim begin) {
  Builder& b = c.b;
  if (b.rank(x) == 4) return x;
  c.expects(b.rank(x) == 3, "queries, keys and values of three axes, or of four");
  if (bias) x = b.add(x, b.slice(*bias, 0, begin, begin + b.shape(x)[2]));
  return onnx_split_heads(b, x, heads);
}

Values multi_head_attention(AtenCall& c) {
  Builder& b = c.b;
  const int64_t heads = heads_of(c, "num_heads");
  const auto key = c.maybe_tensor("key"), value = c.maybe_tensor("value"), bias = c.maybe_tensor("bias");
  const ValueId query = c.tensor("query");
  Heads h{};
  if (b.rank(query) == 5) {  // [batch, length, heads, 3, size]
    c.expects(!key && !value && !bias, "no keys, values and bias beside packed ones");
    const auto part = [&](int64_t i) { return b.transpose(b.select_index(query, 3, i), {0, 2, 1, 3}); };
    h = {part(0), part(1), part(2)};
  } else {
    c.expects(key.has_value() && (value || b.rank(*key) == 5), "keys and values");
    const Dim width = b.shape(query).back();
    h.q = projected_heads(c, query, heads, bias, 0);
    if (b.rank(*key) == 5) {  // [batch, length, heads, 2, size]
      c.expects(!bias, "no bias beside packed keys and values");
      h.k = b.transpose(b.select_index(*key, 3, 0), {0, 2, 1, 3});
      h.v = b.transpose(b.select_index(*key, 3, 1), {0, 2, 1, 3});
    } else {
      h.k = projected_heads(c, *key, heads, bias, width);
      h.v = projected_heads(c, *value, heads, bias, width * Dim(2));
    }
  }
  const auto past_key = c.maybe_tensor("past_key"), past_value = c.maybe_tensor("past_value");
  c.expects(past_key.has_value() == past_value.has_value(), "a past of keys and of values, or neither");
  if (c.maybe_tensor("past_sequence_length")) c.unsupported("a past that shares its buffer");
  Dim past = 0;
  if (past_key) {
    past = b.shape(*past_key)[2];
    h.k = b.concat({*past_key, h.k}, 2);
    h.v = b.concat({*past_value, h.v}, 2);
  }
  const auto mask = added_bias(c, padding_bias(c, "key_padding_mask", b.shape(h.k)[2], b.dtype(h.q)));
  const bool is_causal = c.integer("unidirectional") != 0;
  return {attended(c, h, mask, {{"is_causal", is_causal}, {"query_offset", is_causal ? past : Dim(0)}}), h.k, h.v};
}

// ---- Attention: the projections are part of it

Values attention(AtenCall& c) {
  Builder& b = c.b;
  const int64_t heads = heads_of(c, "num_heads");
  c.expects(c.integer("do_rotary") == 0, "no rotation");
  c.expects(c.integer("past_present_share_buffer") == 0, "a past with a buffer of its own");
  const auto bias = c.maybe_tensor("bias");
  ValueId all = b.matmul(c.tensor("input"), c.tensor("weights"));
  if (bias) all = b.add(all, *bias);
  const Dim width = b.shape(all).back();
  Dims sizes(3, floordiv(width, Dim(3)));
  if (!c.is_none("qkv_hidden_sizes")) sizes = c.dims("qkv_hidden_sizes");
  c.expects(sizes.size() == 3, "sizes of queries, keys and values");
  const auto part = [&](Dim begin, Dim size) { return onnx_split_heads(b, b.slice(all, 2, begin, begin + size), heads); };
  Heads h{part(0, sizes[0]), part(sizes[0], sizes[1]), part(sizes[0] + sizes[1], sizes[2])};
  Dim before = 0;
  if (const auto past = c.maybe_tensor("past")) {  // [2, batch, heads, length, size]
    before = b.shape(*past)[3];
    h.k = b.concat({b.select_index(*past, 0, 0), h.k}, 2);
    h.v = b.concat({b.select_index(*past, 0, 1), h.v}, 2);
  }
  const auto mask = added_bias(c, padding_bias(c, "mask_index", b.shape(h.k)[2], b.dtype(h.q)));
  const bool is_causal = c.integer("unidirectional") != 0;
  const ValueId y = attended(c, h, mask, {{"is_causal", is_causal}, {"query_offset", is_causal ? before : Dim(0)}});
  if (c.result_count() < 2) return {y};
  return {y, b.concat({b.unsqueeze(h.k, 0), b.unsqueeze(h.v, 0)}, 0)};
}

// ---- GroupQueryAttention

// x: [batch, heads, length, size] at positions [batch, length].
ValueId rotated(Builder& b, ValueId x, ValueId cos, ValueId sin, ValueId positions, bool is_interleaved) {
  const Dim half = b.shape(cos).back(), size = b.shape(x)[3];
  const auto at = [&](ValueId table) { return b.unsqueeze(b.create("take", {table, positions}, {{"axis", int64_t{0}}}), 1); };
  const ValueId c = at(cos), s = at(sin), head = b.slice(x, 3, 0, half * Dim(2));
  const ValueId left = is_interleaved ? b.slice(head, 3, 0, half * Dim(2), 2) : b.slice(head, 3, 0, half);
  const ValueId right = is_interleaved ? b.slice(head, 3, 1, half * Dim(2), 2) : b.slice(head, 3, half, half * Dim(2));
  const ValueId real = b.sub(b.mul(c, left), b.mul(s, right)), imaginary = b.add(b.mul(s, left), b.mul(c, right));
  ValueId y = is_interleaved ? b.reshape(b.concat({b.unsqueeze(real, 4), b.unsqueeze(imaginary, 4)}, 4), b.shape(head))
                             : b.concat({real, imaginary}, 3);
  return half * Dim(2) == size ? y : b.concat({y, b.slice(x, 3, half * Dim(2), size)}, 3);
}

// The cache with the new rows where each sequence ends: past [batch, heads, P, size] → [batch, heads, P + length, size].
ValueId appended(Builder& b, ValueId past, ValueId rows, ValueId positions) {
  const Shape s = b.shape(rows);
  Dims low(4, Dim(0)), high = low;
  high[2] = s[2];
  const ValueId index = b.broadcast_to(b.reshape(positions, {s[0], 1, s[2], 1}), s);
  return b.create("scatter", {b.pad(past, low, high, 0.0), index, rows},
                  {{"axis", int64_t{2}}, {"reduce", std::string("none")}, {"include_self", true}});
}

Heads grouped_heads(AtenCall& c, int64_t heads, int64_t shared) {
  Builder& b = c.b;
  const ValueId query = c.tensor("query");
  const auto key = c.maybe_tensor("key"), value = c.maybe_tensor("value");
  c.expects(key.has_value() == value.has_value(), "keys and values, or both packed with the queries");
  if (key) return {onnx_split_heads(b, query, heads), onnx_split_heads(b, *key, shared), onnx_split_heads(b, *value, shared)};
  const Dim size = floordiv(b.shape(query).back(), Dim(heads + 2 * shared));
  const auto part = [&](int64_t begin, int64_t count) {
    return onnx_split_heads(b, b.slice(query, 2, size * Dim(begin), size * Dim(begin + count)), count);
  };
  return {part(0, heads), part(heads, shared), part(heads + shared, shared)};
}

// By its formula, where scores are bent before the softmax.
ValueId softcapped(AtenCall& c, const Heads& h, ValueId mask, double cap, int64_t group) {
  Builder& b = c.b;
  const auto size = b.shape(h.q)[3].maybe_number();
  if (!size) c.unsupported("heads whose size is open");
  const double scale = c.is_none("scale") || c.number("scale") == 0 ? 1 / std::sqrt(static_cast<double>(*size))
                                                                    : c.number("scale");
  const DType dtype = b.dtype(h.q);
  const auto repeated = [&](ValueId x) {
    const Shape s = b.shape(x);
    const ValueId wide = b.broadcast_to(b.unsqueeze(b.widened(x), 2), {s[0], s[1], Dim(group), s[2], s[3]});
    return b.reshape(wide, {s[0], s[1] * Dim(group), s[2], s[3]});
  };
  ValueId scores = b.mul(b.matmul(b.widened(h.q), b.swap_axes(repeated(h.k), -1, -2)), scale);
  scores = b.add(b.mul(b.tanh(b.div(scores, cap)), cap), b.cast(mask, b.dtype(scores)));
  const ValueId weights = b.create("softmax", {scores}, {{"dim", int64_t{3}}});
  return onnx_merge_heads(b, b.narrowed(b.matmul(weights, repeated(h.v)), dtype));
}

Values group_query_attention(AtenCall& c) {
  Builder& b = c.b;
  const int64_t heads = heads_of(c, "num_heads"), shared = heads_of(c, "kv_num_heads");
  c.expects(heads % shared == 0, "heads of queries that share heads of keys evenly");
  c.expects(c.integer("smooth_softmax") <= 0 && !c.maybe_tensor("head_sink"), "a softmax without a sink");
  c.discard("total_sequence_length", "of the longest sequence; seqlens_k has that of each");
  Heads h = grouped_heads(c, heads, shared);
  const Dim batch = b.shape(h.q)[0], length = b.shape(h.q)[2];
  // How many rows of each sequence are in the cache: a prompt that is padded has none.
  const ValueId ends = b.reshape(b.cast(c.tensor("seqlens_k"), DType::i64), {batch, 1});
  const ValueId before = b.maximum(b.sub(b.add(ends, b.full(int64_t{1}, DType::i64)), b.dim_value(length)), 0.0);
  const ValueId rows = b.add(before, b.iota(length));  // [batch, length]
  const auto cos = c.maybe_tensor("cos_cache"), sin = c.maybe_tensor("sin_cache"), given = c.maybe_tensor("position_ids");
  const bool is_interleaved = c.integer("rotary_interleaved") != 0;
  if (c.integer("do_rotary") != 0) {
    c.expects(cos && sin, "tables of cosines and sines");
    const ValueId positions = given ? b.cast(*given, DType::i64) : rows;
    h.q = rotated(b, h.q, *cos, *sin, positions, is_interleaved);
    h.k = rotated(b, h.k, *cos, *sin, positions, is_interleaved);
  }
  const auto past_key = c.maybe_tensor("past_key"), past_value = c.maybe_tensor("past_value");
  c.expects(past_key.has_value() == past_value.has_value(), "a past of keys and of values, or neither");
  if (past_key) {
    h.k = appended(b, *past_key, h.k, rows);
    h.v = appended(b, *past_value, h.v, rows);
  }
  const ValueId row = b.reshape(rows, {batch, 1, length, 1}), column = b.iota(b.shape(h.k)[2]);
  ValueId seen = b.compare("le", column, row);
  if (const int64_t window = c.integer("local_window_size"); window > 0)
    seen = b.logical_and(seen, b.compare("gt", column, b.sub(row, b.full(window, DType::i64))));
  const double cap = c.number("softcap");
  const auto bias = c.maybe_tensor("attention_bias");
  const DType dtype = b.dtype(h.q);
  ValueId mask = seen;
  if (bias || cap != 0) mask = b.select(seen, b.full(0.0, dtype), b.full(-kInfinity, dtype));
  if (bias) mask = b.add(mask, *bias);
  const ValueId y = cap != 0 ? softcapped(c, h, mask, cap, heads / shared)
                             : attended(c, h, mask, {{"enable_gqa", heads != shared}});
  return {y, h.k, h.v};
}

}  // namespace

std::vector<OpDef> attention_microsoft_ops() {
  const char* op = "scaled_dot_product_attention";
  return {onnx_mapped_all(op,
                          {"onnx.com.microsoft.MultiHeadAttention.1(query, key?, value?, bias?, key_padding_mask?, "
                           "attention_bias?, past_key?, past_value?, past_sequence_length?; mask_filter_value=-10000.0, "
                           "num_heads!, scale=none, unidirectional=0)"},
                          multi_head_attention),
          onnx_mapped_all(op,
                          {"onnx.com.microsoft.Attention.1(input, weights, bias?, mask_index?, past?, attention_bias?; "
                           "do_rotary=0, mask_filter_value=-10000.0, num_heads!, past_present_share_buffer=0, "
                           "qkv_hidden_sizes=none, scale=none, unidirectional=0)"},
                          attention),
          onnx_mapped_all(op,
                          {"onnx.com.microsoft.GroupQueryAttention.1(query, key?, value?, past_key?, past_value?, seqlens_k, "
                           "total_sequence_length, cos_cache?, sin_cache?, position_ids?, attention_bias?, head_sink?; "
                           "do_rotary=0, kv_num_heads!, local_window_size=-1, num_heads!, rotary_interleaved=0, scale=none, "
                           "smooth_softmax=-1, softcap=0.0)"},
                          group_query_attention)};
}

}  // namespace pycandle
