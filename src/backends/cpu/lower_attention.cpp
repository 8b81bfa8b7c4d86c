// Attention: queries, keys and values by strides, so that heads are split and merged without copying.
#include <cmath>

#include "backends/cpu/kernel_step.h"
#include "backends/cpu/lowerings.h"

namespace pycandle::cpu {
namespace {

bool claims_attention(const Call& c) {
  const auto is_fine = [&](const char* name) {
    return c.type(name).dtype == DType::f32 && (c.rank(name) == 3 || c.rank(name) == 4);
  };
  if (!is_fine("query") || !is_fine("key") || !is_fine("value")) return false;
  if (c.rank("key") != c.rank("query") || c.rank("value") != c.rank("query")) return false;
  if (c.has("alibi_slopes") || c.has("masked_bias")) return false;
  if (!c.has("scale") && !c.shape("query").back().is_number()) return false;
  const Shape &q = c.shape("query"), &k = c.shape("key"), &v = c.shape("value");
  for (size_t a = 0; a + 3 < q.size(); ++a) {
    if (q[a] != k[a] || q[a] != v[a]) return false;
  }
  const size_t heads = q.size() - 3;
  if (k[heads] != v[heads]) return false;
  if (!c.boolean("enable_gqa") && q[heads] != k[heads]) return false;
  if (!c.has("attn_mask")) return true;
  const DType mask = c.type("attn_mask").dtype;
  return (mask == DType::f32 || mask == DType::boolean) && c.rank("attn_mask") <= c.rank("query");
}

View with_batch(View v) {
  if (v.rank() == 3) {
    v.sizes.insert(v.sizes.begin(), 1);
    v.strides.insert(v.strides.begin(), 0);
  }
  return v;
}

// Aligned at the end and repeated: [L, S] → [B, H, L, S].
View over_scores(const View& mask, const Sizes& scores) {
  std::vector<int64_t> axes;
  for (size_t a = 0; a < mask.sizes.size(); ++a) {
    const size_t to = scores.size() - mask.sizes.size() + a;
    if (mask.sizes[a] != 1 && mask.sizes[a] != scores[to]) {
      throw Error(ErrorCode::bad_input, "attn_mask does not broadcast to the scores")
          .expected(to_string(scores))
          .found(to_string(mask.sizes));
    }
    axes.push_back(static_cast<int64_t>(to));
  }
  return broadcasted(mask, scores, axes);
}

bool lower_attention(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const auto operand = [&](const char* name) {
    View v = p.view(c.value(name));
    if (v.sizes.back() > 1 && v.strides.back() != 1) v = p.dense(v);
    return with_batch(std::move(v));
  };
  const View q = operand("query"), k = operand("key"), v = operand("value");
  Attention args;
  args.batch = q.sizes[0];
  args.heads = q.sizes[1];
  args.kv_heads = k.sizes[1];
  args.queries = q.sizes[2];
  args.keys = k.sizes[2];
  args.head_size = q.sizes[3];
  args.value_size = v.sizes[3];
  args.q_batch = q.strides[0], args.q_head = q.strides[1], args.q_row = q.strides[2];
  args.k_batch = k.strides[0], args.k_head = k.strides[1], args.k_row = k.strides[2];
  args.v_batch = v.strides[0], args.v_head = v.strides[1], args.v_row = v.strides[2];
  const bool sizes_fit = k.sizes[3] == args.head_size && v.sizes[2] == args.keys && k.sizes[0] == args.batch &&
                         v.sizes[0] == args.batch && v.sizes[1] == args.kv_heads && args.kv_heads > 0 &&
                         args.heads % args.kv_heads == 0;
  if (!sizes_fit) throw Error(ErrorCode::bad_input, "the sizes of query, key and value do not fit each other");
  args.scale = static_cast<float>(c.has("scale") ? c.number("scale") : 1 / std::sqrt(static_cast<double>(args.head_size)));
  args.causal = c.boolean("is_causal");
  args.query_offset = c.dim("query_offset").evaluate(p.bindings());
  args.window = c.has("window") ? c.integer("window") : 0;
  args.nan_when_nothing = c.boolean("eager");
  std::vector<Bound> reads = {{offsetof(Attention, q), q}, {offsetof(Attention, k), k}, {offsetof(Attention, v), v}};
  if (c.has("attn_mask")) {
    const View mask = over_scores(p.view(c.value("attn_mask")), {args.batch, args.heads, args.queries, args.keys});
    const bool is_bool = mask.dtype == DType::boolean;
    int64_t* strides[4] = {is_bool ? &args.allowed_batch : &args.mask_batch, is_bool ? &args.allowed_head : &args.mask_head,
                           is_bool ? &args.allowed_row : &args.mask_row, is_bool ? &args.allowed_col : &args.mask_col};
    for (size_t a = 0; a < 4; ++a) *strides[a] = mask.strides[a];
    reads.push_back({is_bool ? offsetof(Attention, allowed) : offsetof(Attention, mask), mask});
  }
  if (c.has("key_mask")) {
    const View mask = p.view(c.value("key_mask"));
    args.key_mask_batch = mask.rank() == 2 && mask.sizes[0] > 1 ? mask.strides[0] : 0;
    args.key_mask_col = mask.strides.back();
    reads.push_back({offsetof(Attention, key_mask), mask});
  }
  // Heads lie side by side in memory, as what follows wants them: merging them is a view.
  const Sizes sizes = p.sizes(node.results[0]);
  const View memory = dense_view(p.new_buffer(static_cast<size_t>(element_count(sizes)) * 4), DType::f32,
                                 {args.batch, args.queries, args.heads, args.value_size});
  args.out_batch = memory.strides[0];
  args.out_row = memory.strides[1];
  args.out_head = memory.strides[2];
  const Kernels& kernel = kernels();
  const double work = 2.0 * static_cast<double>(args.batch * args.heads * args.queries) *
                      static_cast<double>(args.keys * args.head_size);
  add_kernel<Attention>(p, {"attention", work}, kernel.attention, kernel.attention_units, kernel.attention_scratch, args, reads,
                        {{offsetof(Attention, out), memory}});
  View out = transposed(memory, {0, 2, 1, 3});
  if (sizes.size() == 3) {
    out.sizes.erase(out.sizes.begin());
    out.strides.erase(out.strides.begin());
  }
  p.define(node.results[0], out);
  return true;
}

}  // namespace

std::vector<Lowering> attention_lowerings() { return {{"scaled_dot_product_attention", claims_attention, lower_attention}}; }

}  // namespace pycandle::cpu
