// Attention and rotary positions: queries, keys and values by strides, so that heads are split and merged without copying.
#include <algorithm>
#include <cmath>

#include "backends/cpu/cache_rows.h"
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
  if (c.has("masked_bias") && c.number("masked_bias") == 0) return false;
  if (c.has("alibi_slopes") && (c.type("alibi_slopes").dtype != DType::f32 || c.rank("query") != 4)) return false;
  if (!c.has("scale") && !c.shape("query").back().is_number()) return false;
  const Shape &q = c.shape("query"), &k = c.shape("key"), &v = c.shape("value");
  for (size_t a = 0; a + 3 < q.size(); ++a) {
    if (q[a] != k[a] || q[a] != v[a]) return false;
  }
  // A mask of keys has a row for each sequence of a batch. The first of three axes counts as heads here, and heads share a row.
  if (c.has("key_mask") && c.rank("key_mask") == 2 && c.rank("query") == 3) return false;
  const size_t heads = q.size() - 3;
  if (k[heads] != v[heads]) return false;
  if (!c.boolean("enable_gqa") && q[heads] != k[heads]) return false;
  if (!c.has("attn_mask")) return true;
  const DType mask = c.type("attn_mask").dtype;
  if (mask == DType::f32 && c.has("alibi_slopes")) return false;  // one mask that is added
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

// slopes[h] * positions[b, j] * scale as [B, H, 1, S]: what ALiBi adds to the scores.
View alibi(Planner& p, const Call& c, int64_t keys) {
  const View slopes = p.dense(c.value("alibi_slopes")), positions = p.dense(c.value("alibi_positions"));
  const int64_t heads = slopes.count(), batch = positions.rank() == 2 ? positions.sizes[0] : 1;
  const View out = dense_view(p.new_buffer(static_cast<size_t>(batch * heads * keys) * 4), DType::f32, {batch, heads, 1, keys});
  Step step;
  step.kernel = "alibi";
  step.reads = {slopes.buffer, positions.buffer};
  step.writes = {out.buffer};
  step.run = [=, scale = static_cast<float>(c.number("alibi_scale")), &k = kernels()](Context& context) {
    float* to = context.pointer(out);
    for (int64_t b = 0; b < batch; ++b) {
      for (int64_t h = 0; h < heads; ++h, to += keys) {
        k.binary[static_cast<int>(Binary::mul)](context.pointer(positions) + b * keys, 1, context.pointer(slopes) + h, 0, to,
                                                keys);
        if (scale != 1) k.binary[static_cast<int>(Binary::mul)](to, 1, &scale, 0, to, keys);
      }
    }
  };
  p.add(std::move(step));
  return out;
}

// Arguments and what they read, but for ALiBi.
struct AttentionCall {
  Attention args;
  std::vector<Bound> reads;

  void add_mask(const View& given) {
    const View mask = over_scores(given, {args.batch, args.heads, args.queries, args.keys});
    const bool is_bool = mask.dtype == DType::boolean;
    int64_t* strides[4] = {is_bool ? &args.allowed_batch : &args.mask_batch, is_bool ? &args.allowed_head : &args.mask_head,
                           is_bool ? &args.allowed_row : &args.mask_row, is_bool ? &args.allowed_col : &args.mask_col};
    for (size_t a = 0; a < 4; ++a) *strides[a] = mask.strides[a];
    reads.push_back({is_bool ? offsetof(Attention, allowed) : offsetof(Attention, mask), mask});
  }
};

View contiguous_rows(Planner& p, const View& v) { return v.sizes.back() > 1 && v.strides.back() != 1 ? p.dense(v) : v; }

AttentionCall attention_call(Planner& p, const Call& c, const View& q, const View& k, const View& v) {
  AttentionCall call;
  Attention& args = call.args;
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
  args.window = c.has("window") ? c.integer("window") : 0;
  args.nan_when_nothing = c.boolean("eager");
  if (c.has("masked_bias")) args.masked_bias = static_cast<float>(c.number("masked_bias"));
  call.reads = {{offsetof(Attention, q), q}, {offsetof(Attention, k), k}, {offsetof(Attention, v), v}};
  if (c.has("attn_mask")) call.add_mask(p.view(c.value("attn_mask")));
  if (c.has("key_mask")) {
    const View mask = p.view(c.value("key_mask"));
    args.key_mask_batch = mask.rank() == 2 && mask.sizes[0] > 1 ? mask.strides[0] : 0;
    args.key_mask_col = mask.strides.back();
    call.reads.push_back({offsetof(Attention, key_mask), mask});
  }
  return call;
}

// Heads lie side by side in memory, as what follows wants them: merging them is a view.
View attended(Planner& p, Attention& args) {
  const int64_t count = args.batch * args.queries * args.heads * args.value_size;
  const View memory = dense_view(p.new_buffer(static_cast<size_t>(count) * 4), DType::f32,
                                 {args.batch, args.queries, args.heads, args.value_size});
  args.out_batch = memory.strides[0];
  args.out_row = memory.strides[1];
  args.out_head = memory.strides[2];
  return memory;
}

double attention_work(const Attention& args) {
  return 2.0 * static_cast<double>(args.batch * args.heads * args.queries) * static_cast<double>(args.keys * args.head_size);
}

void add_attention(Planner& p, const AttentionCall& call, const View& memory) {
  const Kernels& kernel = kernels();
  add_kernel<Attention>(p, {"attention", attention_work(call.args)}, kernel.attention, kernel.attention_units,
                        kernel.attention_scratch, call.args, call.reads, {{offsetof(Attention, out), memory}});
}

bool lower_attention(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const auto operand = [&](const char* name) { return with_batch(contiguous_rows(p, p.view(c.value(name)))); };
  const View q = operand("query"), k = operand("key"), v = operand("value");
  AttentionCall call = attention_call(p, c, q, k, v);
  call.args.causal = c.boolean("is_causal");
  call.args.query_offset = c.dim("query_offset").evaluate(p.bindings());
  if (c.has("alibi_slopes")) call.add_mask(alibi(p, c, call.args.keys));
  const View memory = attended(p, call.args);
  add_attention(p, call, memory);
  View out = transposed(memory, {0, 2, 1, 3});
  if (p.sizes(node.results[0]).size() == 3) {
    out.sizes.erase(out.sizes.begin());
    out.strides.erase(out.strides.begin());
  }
  p.define(node.results[0], out);
  return true;
}

// ---- attention over a cache

// With one head there may be no axis for it: [batch, length, size].
bool claims_cached_attention(const Call& c) {
  if (c.rank("query") != 4 || !claims_attention(c)) return false;
  return !c.has("alibi_positions") || c.rank("alibi_positions") <= 2;
}

// As many parts of the length as keep all threads busy, where there are fewer heads of keys than threads.
int64_t splits_for(const Attention& args, int threads) {
  const int64_t units = args.batch * args.kv_heads;
  return units >= threads || units == 0 ? 1 : (threads + units - 1) / units;
}

// How much there is to do is known when it runs, so the threads are counted there.
void add_few_queries(Planner& p, CachedAttention args, std::vector<Bound> bound, const View& memory) {
  const Kernels& kernel = kernels();
  args.splits = splits_for(args.call, p.threads());
  const int64_t units = kernel.cached_attention_units(args);
  const int64_t scratch = (kernel.cached_attention_scratch(args) + 15) / 16 * 16;
  const int64_t partial = kernel.partial_attention_size(args);
  const View own = dense_view(p.new_buffer(static_cast<size_t>(scratch * p.threads()) * 4), DType::f32, {scratch * p.threads()});
  const View sums = dense_view(p.new_buffer(static_cast<size_t>(partial) * 4), DType::f32, {partial});
  Step step;
  step.kernel = "cached_attention";
  step.work = attention_work(args.call);
  for (const Bound& b : bound) step.reads.push_back(b.view.buffer);
  step.writes = {own.buffer, sums.buffer, memory.buffer};
  bound.push_back({offsetof(CachedAttention, call) + offsetof(Attention, out), memory});
  bound.push_back({offsetof(CachedAttention, partial), sums});
  step.run = [&kernel, args, bound = std::move(bound), units, scratch, own](Context& c) {
    const CachedAttention filled = with_pointers(args, bound, c);
    const Attention& call = filled.call;
    int64_t keys = 0;
    for (int64_t b = 0; b < call.batch; ++b) keys += std::clamp<int64_t>(filled.starts[b] + call.queries, 0, call.keys);
    const double work = 2.0 * static_cast<double>(keys * call.head_size) * static_cast<double>(call.heads * call.queries);
    const int parts = parts_for(c.threads, units, work);
    run_parts(parts, [&](int part) {
      kernel.cached_attention(filled, part_of(units, parts, part), part_of(units, parts, part + 1),
                              c.pointer(own) + part * scratch);
    });
    if (args.splits > 1) kernel.merge_attention(filled, 0, kernel.merge_attention_units(args), nullptr);
  };
  if (units > 0) p.add(std::move(step));
}

// Many queries: the kernel of whole sequences, one after the other, each with the keys that are there.
void add_many_queries(Planner& p, const AttentionCall& call, const View& starts, const View& memory) {
  const Kernels& kernel = kernels();
  Attention args = call.args;
  const int64_t batch = args.batch;
  args.batch = 1;
  const int64_t units = kernel.attention_units(args), scratch = (kernel.attention_scratch(args) + 15) / 16 * 16;
  const int parts = parts_for(p.threads(), units, attention_work(args) / 2);
  const View own = dense_view(p.new_buffer(static_cast<size_t>(scratch * parts) * 4), DType::f32, {scratch * parts});
  std::vector<Bound> bound = call.reads;
  bound.push_back({offsetof(Attention, out), memory});
  Step step;
  step.kernel = "attention";
  step.work = attention_work(call.args);
  for (const Bound& b : call.reads) step.reads.push_back(b.view.buffer);
  step.reads.push_back(starts.buffer);
  step.writes = {own.buffer, memory.buffer};
  step.run = [&kernel, args, bound = std::move(bound), batch, units, parts, scratch, own, starts](Context& c) {
    for (int64_t b = 0; b < batch; ++b) {
      Attention here = with_pointers(args, bound, c);
      const int64_t start = c.pointer<int64_t>(starts)[b];
      here.query_offset = start;
      if (here.masked_bias == 0) here.keys = std::clamp<int64_t>(start + here.queries, 0, here.keys);
      here.q += b * here.q_batch, here.k += b * here.k_batch, here.v += b * here.v_batch, here.out += b * here.out_batch;
      if (here.mask) here.mask += b * here.mask_batch;
      if (here.allowed) here.allowed += b * here.allowed_batch;
      if (here.key_mask) here.key_mask += b * here.key_mask_batch;
      run_parts(parts, [&](int part) {
        kernel.attention(here, part_of(units, parts, part), part_of(units, parts, part + 1), c.pointer(own) + part * scratch);
      });
    }
  };
  if (units > 0 && batch > 0) p.add(std::move(step));
}

bool lower_cached_attention(Planner& p, size_t index) {
  constexpr int64_t kFewQueries = 8;  // for more it pays to turn the keys, so that each lane has a query
  const Node& node = p.node(index);
  const Call c = p.call(index);
  const auto operand = [&](const char* name) { return contiguous_rows(p, p.view(c.value(name))); };
  const View q = operand("query"), starts = p.dense(c.value("starts"));
  View k = operand("key"), v = operand("value");
  const bool is_few = q.sizes[2] <= kFewQueries && k.dtype == v.dtype;
  if (!is_few) {
    k = widened_rows(p, k, starts, q.sizes[2]);
    v = widened_rows(p, v, starts, q.sizes[2]);
  }
  AttentionCall call = attention_call(p, c, q, k, v);
  call.args.causal = true;
  const View memory = attended(p, call.args);
  if (is_few) {
    CachedAttention args{.call = call.args, .kept = half_format(k.dtype).value_or(WeightFormat::f32)};
    std::vector<Bound> bound = call.reads;  // the call is the first of the arguments
    bound.push_back({offsetof(CachedAttention, starts), starts});
    if (c.has("alibi_slopes")) {
      const View positions = p.dense(c.value("alibi_positions"));
      bound.push_back({offsetof(CachedAttention, slopes), p.dense(c.value("alibi_slopes"))});
      bound.push_back({offsetof(CachedAttention, positions), positions});
      args.positions_batch = positions.rank() == 2 && positions.sizes[0] > 1 ? positions.strides[0] : 0;
      args.alibi_scale = static_cast<float>(c.number("alibi_scale"));
    }
    add_few_queries(p, args, std::move(bound), memory);
  } else {
    if (c.has("alibi_slopes")) call.add_mask(alibi(p, c, call.args.keys));
    add_many_queries(p, call, starts, memory);
  }
  p.define(node.results[0], transposed(memory, {0, 2, 1, 3}));
  return true;
}

// ---- rotary positions

// cos and sin against [batch, a, b, size]: one of a and b is the axis of the heads, which they lack.
bool claims_rotary(const Call& c) {
  if (c.type("x").dtype != DType::f32 || c.rank("x") < 1 || c.rank("x") > 4) return false;
  Shape angles = c.shape("cos");
  if (c.has("unsqueeze_dim")) angles.insert(angles.begin() + c.integer("unsqueeze_dim"), Dim(1));
  const size_t rank = angles.size();
  return rank < 3 || angles[rank - 2] == Dim(1) || angles[rank - 3] == Dim(1);
}

View with_four_axes(View v) {
  while (v.rank() < 4) {
    v.sizes.insert(v.sizes.begin(), 1);
    v.strides.insert(v.strides.begin(), 0);
  }
  return v;
}

bool lower_rotary(Planner& p, size_t index) {
  const Node& node = p.node(index);
  const Call c = p.call(index);
  View x = p.view(c.value("x"));
  if (x.sizes.back() > 1 && x.strides.back() != 1) x = p.dense(x);
  x = with_four_axes(std::move(x));
  const View cos = p.dense(c.value("cos")), sin = p.dense(c.value("sin"));
  View angles = cos;
  if (c.has("unsqueeze_dim")) {
    angles.sizes.insert(angles.sizes.begin() + c.integer("unsqueeze_dim"), 1);
    angles.strides.insert(angles.strides.begin() + c.integer("unsqueeze_dim"), 0);
  }
  angles = with_four_axes(std::move(angles));
  for (size_t a = 0; a < 3; ++a) {
    if (angles.sizes[a] == 1) angles.strides[a] = 0;
    if (angles.sizes[a] == 1 || angles.sizes[a] == x.sizes[a]) continue;
    throw Error(ErrorCode::bad_input, "cos and sin do not broadcast to x")
        .expected(to_string(x.sizes))
        .found(to_string(angles.sizes));
  }
  const size_t heads = angles.strides[1] == 0 ? 1 : 2, length = 3 - heads;
  Rotary args;
  args.batch = x.sizes[0];
  args.length = x.sizes[length];
  args.heads = x.sizes[heads];
  args.size = x.sizes[3];
  args.interleaved = c.boolean("interleaved");
  args.paired = c.boolean("paired");
  args.rotated = cos.sizes.back() * (args.paired ? 2 : 1);
  if (args.rotated > args.size || args.rotated % 2 != 0 || angles.strides[heads] != 0)
    throw Error(ErrorCode::bad_input, "cos and sin do not fit x").expected(to_string(x.sizes)).found(to_string(angles.sizes));
  args.x_batch = x.strides[0], args.x_row = x.strides[length], args.x_head = x.strides[heads];
  args.angle_batch = angles.strides[0], args.angle_row = angles.strides[length];
  const View memory = dense_view(p.new_buffer(static_cast<size_t>(x.count()) * 4), DType::f32,
                                 {args.batch, args.length, args.heads, args.size});
  args.out_batch = memory.strides[0], args.out_row = memory.strides[1], args.out_head = memory.strides[2];
  const Kernels& k = kernels();
  add_kernel<Rotary>(p, {"rotary", 8.0 * static_cast<double>(x.count())}, k.rotary, k.rotary_units, k.rotary_scratch, args,
                     {{offsetof(Rotary, x), x}, {offsetof(Rotary, cos), cos}, {offsetof(Rotary, sin), sin}},
                     {{offsetof(Rotary, out), memory}});
  View out = heads == 1 ? transposed(memory, {0, 2, 1, 3}) : memory;
  const auto extra = out.rank() - static_cast<int64_t>(p.sizes(node.results[0]).size());
  out.sizes.erase(out.sizes.begin(), out.sizes.begin() + extra);
  out.strides.erase(out.strides.begin(), out.strides.begin() + extra);
  p.define(node.results[0], out);
  return true;
}

}  // namespace

std::vector<Lowering> attention_lowerings() {
  return {{"scaled_dot_product_attention", claims_attention, lower_attention},
          {"cached_attention", claims_cached_attention, lower_cached_attention},
          {"rotary_embedding", claims_rotary, lower_rotary}};
}

}  // namespace pycandle::cpu
