// Scaled dot-product attention, with every argument torch gives it.
#include <cmath>

#include "ops/functional_helpers.h"

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

OpDef scaled_dot_product_attention() {
  return functional("scaled_dot_product_attention")
      .doc("softmax(query · keyᵀ * scale + mask) · value; a query that attends nowhere gives zeros")
      .operands("query", "key", "value", optional("attn_mask"))
      .attributes(attr<bool>("is_causal", false), optional_attr<double>("scale"), attr<bool>("enable_gqa", false))
      .constraint("scaled_dot_product_attention_c1", "query, key and value are at least matrices of one floating dtype",
                  [](const Call& c) {
                    const DType d = c.type("query").dtype;
                    return c.rank("query") >= 2 && c.rank("key") >= 2 && c.rank("value") >= 2 && is_floating(d) &&
                           c.type("key").dtype == d && c.type("value").dtype == d;
                  })
      .constraint("scaled_dot_product_attention_c2", "query and key have one last dim, key and value one length",
                  [](const Call& c) {
                    const Shape &key = c.shape("key"), &value = c.shape("value");
                    return c.agree(c.shape("query").back(), key.back()) && c.agree(key[key.size() - 2], value[value.size() - 2]);
                  })
      .constraint("scaled_dot_product_attention_c3", "attn_mask is bool, f32 or of the dtype of query",
                  [](const Call& c) {
                    if (!c.has("attn_mask")) return true;
                    const DType d = c.type("attn_mask").dtype;
                    return d == DType::boolean || d == DType::f32 || d == c.type("query").dtype;
                  })
      .constraint("scaled_dot_product_attention_c4",
                  "with enable_gqa all have heads, and those of key and value divide those of query",
                  [](const Call& c) {
                    if (!c.boolean("enable_gqa")) return true;
                    const auto heads = [&](const char* name) { return c.shape(name)[c.shape(name).size() - 3]; };
                    const auto divides = [&](const char* name) {
                      return c.rank(name) >= 3 && c.agree(mod(heads("query"), heads(name)), Dim(0));
                    };
                    return c.rank("query") >= 3 && divides("key") && divides("value");
                  })
      .infer([](const Call& c) {
        const Shape &q = c.shape("query"), &v = c.shape("value");
        Shape batch = batch_of(q);
        if (!c.boolean("enable_gqa")) batch = broadcast_shapes(broadcast_shapes(batch, batch_of(c.shape("key"))), batch_of(v));
        return Type{c.type("query").dtype, joined(batch, {q[q.size() - 2], v.back()})};
      })
      .decompose([](Builder& b, const Call& c) {
        const DType dtype = c.type("query").dtype;
        const ValueId q = b.widened(c.value("query"));
        ValueId k = b.widened(c.value("key")), v = b.widened(c.value("value"));
        const Shape query = b.shape(q);
        if (c.boolean("enable_gqa")) {
          const Dim heads = query[query.size() - 3];
          k = repeat_heads(b, k, heads);
          v = repeat_heads(b, v, heads);
        }
        ValueId scores = matmul_value(b, q, b.swap_axes(k, -1, -2));
        if (c.has("scale")) {
          scores = b.mul(scores, c.number("scale"));
        } else if (const auto width = query.back().maybe_number()) {
          scores = b.mul(scores, 1 / std::sqrt(static_cast<double>(*width)));
        } else {
          scores = b.div(scores, b.sqrt(b.dim_value(query.back(), b.dtype(q))));
        }
        const ValueId never = b.full(kNever, b.dtype(q));
        if (c.boolean("is_causal")) {
          const Shape shape = b.shape(scores);
          const ValueId row = b.unsqueeze(b.iota(shape[shape.size() - 2]), 1), column = b.iota(shape.back());
          scores = b.select(b.compare("le", column, row), scores, never);
        }
        if (const auto mask = c.maybe("attn_mask")) {
          scores = b.dtype(*mask) == DType::boolean ? b.select(*mask, scores, never) : b.add(scores, b.cast(*mask, b.dtype(q)));
        }
        return b.narrowed(matmul_value(b, softmax_value(b, scores, b.rank(scores) - 1, true), v), dtype);
      })
      .from_aten_call("aten.scaled_dot_product_attention.default",
                      [](AtenCall& a) {
                        if (a.number("dropout_p") != 0)
                          a.unsupported("dropout_p other than 0 (call model.eval() before recording)");
                        const auto scale = a.maybe_number("scale");
                        return a.b.create_all("scaled_dot_product_attention",
                                              {a.tensor("query"), a.tensor("key"), a.tensor("value"),
                                               a.maybe_tensor("attn_mask").value_or(kNoValue)},
                                              {{"is_causal", a.boolean("is_causal")},
                                               {"scale", scale ? Attribute(*scale) : Attribute()},
                                               {"enable_gqa", a.boolean("enable_gqa")}});
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
      .sample("F.scaled_dot_product_attention(t(2, 4, 8), t(5, 8), t(1, 5, 6))")
      .sample("F.scaled_dot_product_attention(t(2, 3, 4, 8), t(2, 3, 0, 8), t(2, 3, 0, 8))")
      .spelled_cpp("scaled_dot_product_attention");
}

}  // namespace

std::vector<OpDef> attention_ops() { return {scaled_dot_product_attention()}; }

}  // namespace pycandle
