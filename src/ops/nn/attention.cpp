// Scaled dot-product attention, with every argument torch gives it and with the masks that models build around it.
#include <fmt/format.h>

#include <cmath>

#include "ir/mistakes.h"
#include "ops/core/alignment.h"
#include "ops/core/functional_helpers.h"
#include "ops/nn/eager_attention.h"

namespace pycandle {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();  // the score of a pair that does not attend

// Grouped queries: each head of k or v serves as many heads of q in a row.
ValueId repeat_heads(Builder& b, ValueId x, Dim heads) {
  const Shape shape = b.shape(x);
  const size_t axis = shape.size() - 3;
  if (shape[axis] == heads) return x;
  Shape wide = shape;
  wide.insert(wide.begin() + static_cast<std::ptrdiff_t>(axis) + 1, floordiv(heads, shape[axis]));
  Shape flat = shape;
  flat[axis] = heads;
  return b.reshape(b.broadcast_to(b.unsqueeze(x, static_cast<int64_t>(axis) + 1), wide), flat);
}

Shape batch_of(const Shape& shape) { return first_dims(shape, shape.size() - 2); }

// [keys] or [batch, keys] as […, keys] against scores of this rank.
ValueId over_keys(Builder& b, ValueId x, int64_t rank) {
  const Shape shape = b.shape(x);
  if (shape.size() == 1) return x;
  Shape wide(static_cast<size_t>(rank), Dim(1));
  wide.front() = shape[0];
  wide.back() = shape[1];
  return b.reshape(x, wide);
}

bool is_over_keys(const Call& c, const char* name) {
  const Shape &shape = c.shape(name), &key = c.shape("key"), &query = c.shape("query");
  const bool ranks_fit = shape.size() == 1 || (shape.size() == 2 && query.size() >= 3);
  return ranks_fit && c.agree(shape.back(), key[key.size() - 2]) &&
         (shape.size() == 1 || shape[0] == Dim(1) || query[0] == Dim(1) || c.agree(shape[0], query[0]));
}

// Over a cache every query has a position of its own, and attends to nothing behind it.
bool is_over_cache(const Call& c) { return c.op().operand_index("starts") >= 0; }
bool is_causal(const Call& c) { return is_over_cache(c) || c.boolean("is_causal"); }

// The positions of the queries: [queries, 1], or over a cache [batch, …, queries, 1].
ValueId query_positions(Builder& b, const Call& c, const Shape& scores) {
  const ValueId row = b.unsqueeze(b.iota(scores[scores.size() - 2]), 1);
  if (is_over_cache(c)) return b.add(along_axis(b, c.value("starts"), 0, static_cast<int64_t>(scores.size())), row);
  return c.dim("query_offset") == Dim(0) ? row : b.add(row, b.dim_value(c.dim("query_offset")));
}

// Which pairs the structure of the mask lets attend: true where they do, broadcastable to the scores; nothing when all do.
std::optional<ValueId> allowed_pairs(Builder& b, const Call& c, const Shape& scores) {
  std::optional<ValueId> allowed;
  const auto also = [&](ValueId more) { allowed = allowed ? b.logical_and(*allowed, more) : more; };
  if (is_causal(c) || c.has("window")) {
    const ValueId row = query_positions(b, c, scores), column = b.iota(scores.back());
    if (is_causal(c)) also(b.compare("le", column, row));
    if (c.has("window")) also(b.compare("gt", column, b.sub(row, b.full(c.integer("window"), DType::i64))));
  }
  if (const auto keys = c.maybe("key_mask")) also(over_keys(b, *keys, static_cast<int64_t>(scores.size())));
  return allowed;
}

// slopes[h] * positions[b, j], rounded as the dtype of the two says.
ValueId alibi_bias(Builder& b, const Call& c, DType wide, int64_t rank) {
  const ValueId slopes = b.unsqueeze(b.unsqueeze(c.value("alibi_slopes"), 1), 2);
  const ValueId bias = b.cast(b.mul(slopes, over_keys(b, c.value("alibi_positions"), rank)), wide);
  return c.number("alibi_scale") == 1 ? bias : b.mul(bias, c.number("alibi_scale"));
}

// Where the scale is applied; the first is torch's. In torch's flash kernel for f16 and bf16 the powers of e are rounded before
// the product with the values, and what divides it is the sum of those that were not rounded.
enum class Scaling { of_scores, of_scores_in_flash, divides_scores, of_query, divides_query, of_key };

double scale_of(const Call& c) {
  if (c.has("scale")) return c.number("scale");
  return 1 / std::sqrt(static_cast<double>(c.shape("query").back().number()));
}

ValueId attention_value(Builder& b, const Call& c, Scaling scaling) {
  // Wide and rounded at the end, or, as eager code does, rounded at every step.
  const bool eager = c.boolean("eager");
  const DType dtype = c.type("query").dtype, wide = eager ? dtype : wide_of(dtype);
  const auto scaled = [&](ValueId x, bool divides) {
    return b.narrowed(divides ? b.div(b.widened(x), 1 / scale_of(c)) : b.mul(b.widened(x), scale_of(c)), wide);
  };
  ValueId q = b.cast(c.value("query"), wide), k = b.cast(c.value("key"), wide), v = b.cast(c.value("value"), wide);
  const Shape query = b.shape(q);
  const bool has_number = c.has("scale") || query.back().is_number();
  if (c.boolean("enable_gqa")) {
    const Dim heads = query[query.size() - 3];
    k = repeat_heads(b, k, heads);
    v = repeat_heads(b, v, heads);
  }
  if (has_number && scaling == Scaling::of_key) k = scaled(k, false);
  if (has_number && (scaling == Scaling::of_query || scaling == Scaling::divides_query)) {
    q = scaled(q, scaling == Scaling::divides_query);
  }
  ValueId scores = matmul_value(b, q, b.swap_axes(k, -1, -2));
  if (!has_number) {
    scores = b.div(scores, b.sqrt(b.dim_value(query.back(), wide)));
  } else if (scaling == Scaling::of_scores || scaling == Scaling::of_scores_in_flash || scaling == Scaling::divides_scores) {
    scores = scaled(scores, scaling == Scaling::divides_scores);
  }
  const ValueId never = b.full(kNever, wide);
  if (c.has("alibi_slopes")) scores = b.add(scores, alibi_bias(b, c, wide, b.rank(scores)));
  if (const auto allowed = allowed_pairs(b, c, b.shape(scores))) {
    scores = c.has("masked_bias") ? b.add(scores, b.select(*allowed, b.full(0.0, wide), b.full(c.number("masked_bias"), wide)))
                                  : b.select(*allowed, scores, never);
  }
  if (const auto mask = c.maybe("attn_mask")) {
    scores = b.dtype(*mask) == DType::boolean ? b.select(*mask, scores, never) : b.add(scores, b.cast(*mask, wide));
  }
  if (scaling == Scaling::of_scores_in_flash && !eager) {  // eager code calls no kernel: its spelling is torch's
    const Ints keys{b.rank(scores) - 1};
    const ValueId powers = b.exp(b.sub(scores, b.maximum(b.max(scores, keys), lowest_of(wide))));
    const ValueId sums = b.maximum(b.sum(powers, keys), 1.0);  // 1 at least, but for a query that attends nowhere
    return b.narrowed(b.div(matmul_value(b, b.widened(b.narrowed(powers, dtype)), v), sums), dtype);
  }
  const ValueId weights = b.narrowed(softmax_value(b, b.widened(scores), b.rank(scores) - 1, !eager), wide);
  return b.narrowed(matmul_value(b, weights, v), dtype);
}

// In training some of the weights are dropped. The weights themselves are what attention makes of the unit matrix.
template <class Attention>
ValueId with_dropout(Builder& b, const Attention& attention, ValueId query, ValueId value, double p, bool grouped) {
  const Shape shape = b.shape(value);
  const Dim keys = shape[shape.size() - 2];
  const ValueId row = b.unsqueeze(b.iota(keys), 1), unit = b.cast(b.compare("eq", row, b.iota(keys)), b.dtype(value));
  ValueId weights = attention(b.broadcast_to(unit, joined(batch_of(shape), {keys, keys})));
  weights = p == 1 ? b.mul(weights, 0.0) : dropped(b, weights, kept_at_random(b, b.shape(weights), p), p);
  return matmul_value(b, weights, grouped ? repeat_heads(b, value, b.shape(query)[b.shape(query).size() - 3]) : value);
}

// What both forms of attention take after their operands, and what must hold.
OpDef with_attention_rules(OpDef op) {
  const std::string id = op.name + "_c";
  return op
      .infer([](const Call& c) {
        const Shape &q = c.shape("query"), &v = c.shape("value");
        Shape batch = batch_of(q);
        if (!c.boolean("enable_gqa")) batch = broadcast_shapes(broadcast_shapes(batch, batch_of(c.shape("key"))), batch_of(v));
        return Type{c.type("query").dtype, joined(batch, {q[q.size() - 2], v.back()})};
      })
      .decompose([](Builder& b, const Call& c) { return attention_value(b, c, Scaling::of_scores); })
      .results({"attended"})
      .constraint(id + "1", "query, key and value are at least matrices of one floating dtype",
                  [](const Call& c) {
                    const DType d = c.type("query").dtype;
                    return c.rank("query") >= 2 && c.rank("key") >= 2 && c.rank("value") >= 2 && is_floating(d) &&
                           c.type("key").dtype == d && c.type("value").dtype == d;
                  })
      .constraint(id + "2", "query and key have one last dim, key and value one length",
                  [](const Call& c) {
                    const Shape &key = c.shape("key"), &value = c.shape("value");
                    return c.agree(c.shape("query").back(), key.back()) && c.agree(key[key.size() - 2], value[value.size() - 2]);
                  })
      .constraint(id + "3", "attn_mask is bool, f32 or of the dtype of query",
                  [](const Call& c) {
                    if (!c.has("attn_mask")) return true;
                    const DType d = c.type("attn_mask").dtype;
                    return d == DType::boolean || d == DType::f32 || d == c.type("query").dtype;
                  })
      .constraint(id + "4", "with enable_gqa all have heads, and those of key and value divide those of query",
                  [](const Call& c) {
                    if (!c.boolean("enable_gqa")) return true;
                    const auto heads = [&](const char* name) { return c.shape(name)[c.shape(name).size() - 3]; };
                    const auto divides = [&](const char* name) {
                      return c.rank(name) >= 3 && c.agree(mod(heads("query"), heads(name)), Dim(0));
                    };
                    return c.rank("query") >= 3 && divides("key") && divides("value");
                  })
      .constraint(id + "5", "key_mask is bool [batch, keys] or [keys]",
                  [](const Call& c) {
                    return !c.has("key_mask") || (c.type("key_mask").dtype == DType::boolean && is_over_keys(c, "key_mask"));
                  })
      .constraint(id + "6", "window is positive", [](const Call& c) { return !c.has("window") || c.integer("window") > 0; })
      .constraint(id + "7",
                  "alibi_slopes is [heads] and alibi_positions [batch, keys] or [keys], both or neither, of one floating dtype",
                  [](const Call& c) {
                    if (!c.has("alibi_slopes") || !c.has("alibi_positions"))
                      return !c.has("alibi_slopes") && !c.has("alibi_positions");
                    const Shape& query = c.shape("query");
                    const DType d = c.type("alibi_slopes").dtype;
                    return is_floating(d) && c.type("alibi_positions").dtype == d && c.rank("alibi_slopes") == 1 &&
                           query.size() >= (c.rank("alibi_positions") == 1 ? 3 : 4) &&
                           c.agree(c.shape("alibi_slopes")[0], query[query.size() - 3]) && is_over_keys(c, "alibi_positions");
                  });
}

// ---- what people get wrong

void other_heads(Mistakes& m) {
  const Call& c = m.call();
  if (c.rank("query") < 3) return;
  m.result("head order", "the heads in their order", "the heads in reverse",
           [](Builder& b, ValueId y) { return b.reverse(y, {b.rank(y) - 3}); });
  const auto heads = [&](const char* name) { return m.size(c.shape(name)[c.shape(name).size() - 3]); };
  const int64_t repeats = heads("key") == 0 ? 1 : heads("query") / heads("key");
  if (repeats <= 1) return;  // query head h attends to key head h / repeats, not h % keys
  m.build("head order", "heads of keys repeated one by one", "heads of keys repeated as a whole",
          [repeats](const MistakeSite& site) {
            Values operands = site.operands;
            for (size_t i : {1, 2})
              operands[i] = site.b.concat(Values(static_cast<size_t>(repeats), operands[i]), site.b.rank(operands[i]) - 3);
            return site.same(operands);
          });
}

void attention_mistakes(Mistakes& m) {
  const Call& c = m.call();
  m.flag("causal", "is_causal", "causal attention", "attention that is not causal");
  m.swapped("operand order", "key", "value", "keys and values as they are", "keys and values swapped");
  m.swapped("operand order", "query", "key", "queries and keys as they are", "queries and keys swapped");
  m.without("missing mask", "attn_mask", "mask");
  m.without("missing mask", "key_mask", "mask of keys");
  for (const auto& [name, what] : {std::pair{"attn_mask", "the mask"}, std::pair{"key_mask", "the mask of keys"}}) {
    if (!c.has(name)) continue;
    if (c.type(name).dtype == DType::boolean) {
      m.operand("mask sign", name, what, std::string(what) + " inverted", [](Builder& b, ValueId v) { return b.logical_not(v); });
    } else {  // a term of a sum, as distances are
      m.operand("operation", name, std::string(what) + " added", std::string(what) + " subtracted",
                [](Builder& b, ValueId v) { return b.neg(v); });
    }
  }
  m.flag("eager attention", "eager", "attention rounded at every step", "fused attention");
  other_heads(m);
  const double width = static_cast<double>(m.size(c.shape("query").back()));
  for (const auto& [value, text] :
       std::vector<std::pair<double, const char*>>{{1, "no scale"},
                                                   {1 / std::sqrt(width), "a scale of one by the root of the width"},
                                                   {1 / width, "a scale of one by the width"}}) {
    const std::string now = c.has("scale") ? fmt::format("a scale of {:.6g}", c.number("scale"))
                                           : "a scale of one by the root of the width";
    if (now != text) m.attribute("scale", "scale", value, now, text);
  }
  m.number("scale", "scale", "a scale", {0.001, 0.01, 0.03, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 2, 4, 10});
  m.narrow_operands();
}

constexpr const char *kHeadsThenWidth = "heads, then their width", *kWidthThenHeads = "width, then heads";

// The last three axes of a tensor of that rank in this order, the others as they are.
Ints last_three(int64_t rank, int64_t a, int64_t b, int64_t c) {
  Ints order = axes_between(0, rank - 3);
  for (const int64_t i : {a, b, c}) order.push_back(rank - 3 + i);
  return order;
}

void split_heads_mistakes(Mistakes& m) {
  const int64_t heads = m.size(m.call().dim("heads"));
  m.build("head split order", kHeadsThenWidth, kWidthThenHeads, [heads](const MistakeSite& site) {
    Shape split = site.b.shape(site.operands[0]);
    split.back() = floordiv(split.back(), Dim(heads));
    split.push_back(Dim(heads));
    const ValueId y = site.b.reshape(site.operands[0], split);  // […, length, width, heads]
    return Values{site.b.transpose(y, last_three(site.b.rank(y), 2, 0, 1))};
  });
  m.result("head order", "the heads in their order", "the heads in reverse",
           [](Builder& b, ValueId y) { return b.reverse(y, {b.rank(y) - 3}); });
}

void merge_heads_mistakes(Mistakes& m) {
  m.build("head split order", kHeadsThenWidth, kWidthThenHeads, [](const MistakeSite& site) {
    const ValueId x = site.operands[0], y = site.b.transpose(x, last_three(site.b.rank(x), 1, 2, 0));
    Shape merged = site.b.shape(y);
    const Dim last = merged.back();
    merged.pop_back();
    merged.back() = merged.back() * last;
    return Values{site.b.reshape(y, merged)};
  });
  m.operand("head order", "x", "the heads in their order", "the heads in reverse",
            [](Builder& b, ValueId x) { return b.reverse(x, {b.rank(x) - 3}); });
}

// ---- the ops

OpDef scaled_dot_product_attention() {
  return with_attention_rules(functional("scaled_dot_product_attention")
                                  .operands("query", "key", "value", optional("attn_mask"), optional("key_mask"),
                                            optional("alibi_slopes"), optional("alibi_positions"))
                                  .attributes(attr<bool>("is_causal", false), optional_attr<double>("scale"),
                                              attr<bool>("enable_gqa", false), optional_attr<int64_t>("window"),
                                              attr<Dim>("query_offset", Dim(0)), optional_attr<double>("masked_bias"),
                                              attr<double>("alibi_scale", 1.0), attr<bool>("eager", false)))
      .doc(
          "softmax(query · keyᵀ * scale + mask) · value; a query that attends nowhere gives zeros. Query i stands at i + "
          "query_offset: is_causal keeps the keys up to there, window the last so many of them, key_mask those it names; "
          "the others' scores are -inf, or have masked_bias added. ALiBi adds slopes[h] * positions[b, j] * alibi_scale. "
          "eager: every step rounds to the dtype, and a query that attends nowhere gives NaN")
      .also_written_as([](Builder& b, const Call& c) { return attention_value(b, c, Scaling::divides_scores); })
      .also_written_as([](Builder& b, const Call& c) { return attention_value(b, c, Scaling::of_query); })
      .also_written_as([](Builder& b, const Call& c) { return attention_value(b, c, Scaling::divides_query); })
      .also_written_as([](Builder& b, const Call& c) { return attention_value(b, c, Scaling::of_key); })
      .also_written_as([](Builder& b, const Call& c) { return attention_value(b, c, Scaling::of_scores_in_flash); })
      .recognised_at({"matmul", "dot_general"}, propose_attention)
      .one_kernel()
      .from_aten_call("aten.scaled_dot_product_attention.default",
                      [](AtenCall& a) {
                        const auto scale = a.maybe_number("scale");
                        const double p = a.number("dropout_p");
                        const ValueId query = a.tensor("query"), key = a.tensor("key"), value = a.tensor("value");
                        const ValueId mask = a.maybe_tensor("attn_mask").value_or(kNoValue);
                        const bool grouped = a.boolean("enable_gqa");
                        const Attributes attributes{{"is_causal", a.boolean("is_causal")},
                                                    {"scale", scale ? Attribute(*scale) : Attribute()},
                                                    {"enable_gqa", grouped}};
                        const auto attention = [&](ValueId v) {
                          return a.b.create("scaled_dot_product_attention", {query, key, v, mask, kNoValue, kNoValue, kNoValue},
                                            attributes);
                        };
                        a.expects(p >= 0 && p <= 1, "a dropout_p from 0 to 1");
                        return Values{p == 0 ? attention(value) : with_dropout(a.b, attention, query, value, p, grouped)};
                      })
      .sample("F.scaled_dot_product_attention(t(2, 3, 4, 8), t(2, 3, 5, 8), t(2, 3, 5, 6))")
      .sample("F.scaled_dot_product_attention(t(2, 3, 4, 8), t(2, 3, 5, 8), t(2, 3, 5, 8), is_causal=True)")
      .sample("F.scaled_dot_product_attention(t(2, 3, 6, 8), t(2, 3, 5, 8), t(2, 3, 5, 8), is_causal=True, scale=0.7)")
      .sample("F.scaled_dot_product_attention(t(2, 3, 4, 8), t(2, 3, 5, 8), t(2, 3, 5, 8), m(4, 5))")
      .sample("F.scaled_dot_product_attention(t(2, 3, 4, 2), t(2, 3, 2, 2), t(2, 3, 2, 2), m(2, 1, 4, 2))")
      .sample("F.scaled_dot_product_attention(t(2, 3, 4, 8), t(2, 3, 5, 8), t(2, 3, 5, 8), t(2, 1, 1, 5), scale=-0.5)")
      .sample("F.scaled_dot_product_attention(t(2, 3, 4, 8), t(2, 3, 4, 8), t(2, 3, 4, 8), m(4, 4), is_causal=True)")
      .sample("F.scaled_dot_product_attention(t(2, 6, 4, 8), t(2, 2, 5, 8), t(2, 3, 5, 8), enable_gqa=True)")
      .sample("F.scaled_dot_product_attention(t(6, 4, 8), t(2, 5, 8), t(2, 5, 8), is_causal=True, enable_gqa=True)")
      .sample("F.scaled_dot_product_attention(t(4, 8), t(5, 8), t(5, 8))")
      .sample("F.scaled_dot_product_attention(t(2, 4, 8), t(2, 5, 8), t(2, 5, 6), dropout_p=1.0)")
      .sample("F.scaled_dot_product_attention(t(2, 4, 8), t(5, 8), t(1, 5, 6))")
      .sample("F.scaled_dot_product_attention(t(2, 3, 4, 8), t(2, 3, 0, 8), t(2, 3, 0, 8))")
      .spelled_torch(
          "F.scaled_dot_product_attention({query}, {key}, {value}, {attn_mask}, 0.0, {is_causal}, scale={scale}, "
          "enable_gqa={enable_gqa})",
          [](const Call& c) {
            return !c.has("key_mask") && !c.has("alibi_slopes") && !c.has("window") && !c.has("masked_bias") &&
                   !c.boolean("eager") && c.dim("query_offset") == Dim(0);
          })
      .mistakes(attention_mistakes);
}

OpDef cached_attention() {
  return with_attention_rules(functional("cached_attention")
                                  .operands("query", "key", "value", "starts", optional("attn_mask"), optional("key_mask"),
                                            optional("alibi_slopes"), optional("alibi_positions"))
                                  .attributes(optional_attr<double>("scale"), attr<bool>("enable_gqa", false),
                                              optional_attr<int64_t>("window"), optional_attr<double>("masked_bias"),
                                              attr<double>("alibi_scale", 1.0), attr<bool>("eager", false)))
      .doc(
          "causal attention of new tokens over a cache: row j of key and value stands at position j, query i of sequence b at "
          "starts[b] + i, and it attends to the keys up to there; the rest is as in scaled_dot_product_attention")
      .constraint("cached_attention_c8", "query has a batch axis, and starts is i64 [batch]", [](const Call& c) {
        const Type& starts = c.type("starts");
        return c.rank("query") >= 3 && starts.dtype == DType::i64 && starts.rank() == 1 &&
               c.agree(starts.shape[0], c.shape("query")[0]);
      });
}

// Along the positions, the last axis but one of x and of the result, and the axes before the last `count` of the result.
Alignment along_positions(const AlignedCall& c, size_t count) {
  Alignment a = c.all_but(c.last(count));
  a.is_free[c.rank() - 2] = true;
  a.axes[0][c.rank() - 2] = c.call.rank("x") - 2;
  return a;
}

OpDef split_heads() {
  return functional("split_heads")
      .doc("[…, length, heads * width] → […, heads, length, width]")
      .operands("x")
      .attributes(attr<Dim>("heads"))
      .constraint("split_heads_c1", "x has two axes or more, and heads divides the last",
                  [](const Call& c) {
                    return c.rank("x") >= 2 && c.dim("heads") != Dim(0) &&
                           c.agree(mod(c.shape("x").back(), c.dim("heads")), Dim(0));
                  })
      .infer([](const Call& c) {
        Type y = c.type("x");
        const Dim length = y.shape[y.shape.size() - 2], width = floordiv(y.shape.back(), c.dim("heads"));
        y.shape.resize(y.shape.size() - 2);
        for (const Dim d : {c.dim("heads"), length, width}) y.shape.push_back(d);
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        Shape split = c.shape("x");
        const Dim width = floordiv(split.back(), c.dim("heads"));
        split.back() = c.dim("heads");
        split.push_back(width);
        return b.swap_axes(b.reshape(c.value("x"), split), -3, -2);
      })
      .aligned([](const AlignedCall& c) -> std::optional<Alignment> { return along_positions(c, 3); })
      .rearrangement()
      .same_purpose()
      .spelled_torch("{x}.unflatten(-1, ({heads}, -1)).transpose(-3, -2)")
      .results({"heads"})
      .mistakes(split_heads_mistakes);
}

OpDef merge_heads() {
  return functional("merge_heads")
      .doc("[…, heads, length, width] → […, length, heads * width]")
      .operands("x")
      .constraint("merge_heads_c1", "x has three axes or more", [](const Call& c) { return c.rank("x") >= 3; })
      .infer([](const Call& c) {
        Type y = c.type("x");
        const size_t n = y.shape.size();
        const Dim heads = y.shape[n - 3], length = y.shape[n - 2], width = y.shape[n - 1];
        y.shape.resize(n - 3);
        for (const Dim d : {length, heads * width}) y.shape.push_back(d);
        return y;
      })
      .decompose([](Builder& b, const Call& c) {
        const ValueId swapped = b.swap_axes(c.value("x"), -3, -2);
        Shape merged = b.shape(swapped);
        const Dim width = merged.back();
        merged.pop_back();
        merged.back() = merged.back() * width;
        return b.reshape(swapped, merged);
      })
      .aligned([](const AlignedCall& c) -> std::optional<Alignment> { return along_positions(c, 2); })
      .rearrangement()
      .spelled_torch("{x}.transpose(-3, -2).flatten(-2)")
      .results({"merged"})
      .mistakes(merge_heads_mistakes);
}

}  // namespace

std::vector<OpDef> attention_ops() { return {scaled_dot_product_attention(), cached_attention(), split_heads(), merge_heads()}; }

}  // namespace pycandle
