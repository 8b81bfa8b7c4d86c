// Attention of a few new tokens over a cache, whose length is known only when it runs. All rows of queries that share a head of
// keys meet a block of keys while it is in the first cache, so each key is read from memory once:
//
//   scores[row, key] = query · key                      (kLanes keys at a time, summed across lanes by turning a square)
//   sums[row, :] = sums[row, :] * correction + Σ weight[row, key] * value[key, :]
//
// The length may be cut into splits for several threads. Each leaves its sums and the maximum that they are relative to;
// merge_attention puts them together.
#include "backends/cpu/kernels/isa/attention.h"
#include "backends/cpu/kernels/isa/halves.h"
#include "backends/cpu/kernels/isa/transpose.h"

namespace pycandle::cpu::PYCANDLE_ISA {

constexpr int64_t kBlock = 64;  // keys: 16 KB of them and as many of values, where a head is 64 wide

static int64_t group_of(const CachedAttention& g) { return g.call.heads / g.call.kv_heads; }
static int64_t rows_of(const CachedAttention& g) { return group_of(g) * g.call.queries; }
static int64_t padded_values(const CachedAttention& g) { return round_up(g.call.value_size, kLanes); }
// Of a row in a split: sums, then the maximum and the sum of weights.
static int64_t partial_size(const CachedAttention& g) { return padded_values(g) + kLanes; }
static int64_t widened_size(const CachedAttention& g) {
  return g.kept == WeightFormat::f32 ? 0 : kBlock * (round_up(g.call.head_size, kLanes) + padded_values(g));
}

// Scratch: scaled queries, weights of a block, sums of each row with its maximum and sum, a block in f32.
static int64_t cached_attention_scratch(const CachedAttention& g) {
  return rows_of(g) * (round_up(g.call.head_size, kLanes) + kBlock + partial_size(g)) + widened_size(g);
}
static int64_t cached_attention_units(const CachedAttention& g) { return g.call.batch * g.call.kv_heads * g.splits; }

// scores[j] = q · k[j]. Writes whole vectors.
static void dots(const float* q, const float* k, int64_t k_row, int64_t n, int64_t size, float* scores) {
  for (int64_t j = 0; j < n; j += kLanes) {
    const float* row[kLanes];
    F sums[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) {
      row[i] = k + smaller(j + i, n - 1) * k_row;
      sums[i] = set(0);
    }
    int64_t d = 0;
    for (; d + kLanes <= size; d += kLanes) {
      const F x = load(q + d);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) sums[i] = fma(load(row[i] + d), x, sums[i]);
    }
    if (d < size) {
      const F x = load_n(q + d, size - d);
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; ++i) sums[i] = fma(load_n(row[i] + d, size - d), x, sums[i]);
    }
    transpose_square(sums);
#pragma GCC unroll 4
    for (int step = kLanes / 2; step > 0; step /= 2)
#pragma GCC unroll 8
      for (int i = 0; i < step; ++i) sums[i] = sums[i] + sums[i + step];
    store(scores + j, sums[0]);
  }
}

// sums[:] = sums[:] * correction + Σ weights[j] * v[j][:] for `vectors` vectors of the values.
template <int vectors>
INLINE void weighted(const float* weights, const float* v, int64_t v_row, int64_t n, F correction, float* sums) {
  F even[vectors], odd[vectors];
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i) {
    even[i] = load(sums + i * kLanes) * correction;
    odd[i] = set(0);
  }
  int64_t j = 0;
  for (; j + 2 <= n; j += 2) {
    const F a = set(weights[j]), b = set(weights[j + 1]);
    const float *x = v + j * v_row, *y = x + v_row;
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) {
      even[i] = fma(load(x + i * kLanes), a, even[i]);
      odd[i] = fma(load(y + i * kLanes), b, odd[i]);
    }
  }
  if (j < n) {
#pragma GCC unroll 4
    for (int i = 0; i < vectors; ++i) even[i] = fma(load(v + j * v_row + i * kLanes), set(weights[j]), even[i]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < vectors; ++i) store(sums + i * kLanes, even[i] + odd[i]);
}

static void weighted_sums(const CachedAttention& g, const float* weights, const float* v, int64_t v_row, int64_t n,
                          float correction, float* sums) {
  const F factor = set(correction);
  int64_t d = 0;
  for (; d + 4 * kLanes <= g.call.value_size; d += 4 * kLanes) weighted<4>(weights, v + d, v_row, n, factor, sums + d);
  for (; d + kLanes <= g.call.value_size; d += kLanes) weighted<1>(weights, v + d, v_row, n, factor, sums + d);
  if (d == g.call.value_size) return;
  F sum = load(sums + d) * factor;
  for (int64_t j = 0; j < n; ++j) sum = fma(load_n(v + j * v_row + d, g.call.value_size - d), set(weights[j]), sum);
  store(sums + d, sum);
}

// A row of queries, and the keys of a block.
struct Scores {
  int64_t batch, head, query, position;  // of the row
  int64_t key, n;
  float* at;
};

// Adds masks and biases, and makes the scores that may not be attended -inf or biased.
static void apply_masks(const CachedAttention& g, const Scores& s) {
  const auto add = [&](int64_t j, float x) ALWAYS { s.at[j] += in_powers_of_two(set(x))[0]; };
  const float never = -__builtin_inff();
  if (g.slopes != nullptr) {
    const float* positions = g.positions + s.batch * g.positions_batch + s.key;
    const F slope = set(g.slopes[s.head]), scale = set(g.alibi_scale);
    for (int64_t j = 0; j < s.n; j += kLanes) {
      const F bias = load_n(positions + j, smaller(kLanes, s.n - j)) * slope * scale;
      store(s.at + j, load(s.at + j) + in_powers_of_two(bias));
    }
  }
  if (g.call.mask != nullptr) {
    const float* mask = g.call.mask + s.batch * g.call.mask_batch + s.head * g.call.mask_head + s.query * g.call.mask_row +
                        s.key * g.call.mask_col;
    for (int64_t j = 0; j < s.n; ++j) add(j, mask[j * g.call.mask_col]);
  }
  if (g.call.allowed != nullptr) {
    const uint8_t* allowed = g.call.allowed + s.batch * g.call.allowed_batch + s.head * g.call.allowed_head +
                             s.query * g.call.allowed_row + s.key * g.call.allowed_col;
    for (int64_t j = 0; j < s.n; ++j)
      if (allowed[j * g.call.allowed_col] == 0) s.at[j] = never;
  }
  const auto forbid = [&](int64_t j) ALWAYS {
    if (g.call.masked_bias != 0) {
      add(j, g.call.masked_bias);
    } else {
      s.at[j] = never;
    }
  };
  const int64_t first = g.call.window > 0 ? larger(0, s.position - g.call.window + 1 - s.key) : 0;  // that may be attended
  const int64_t last = smaller(s.n, s.position + 1 - s.key);                              // … and the end of those
  const uint8_t* keys = g.call.key_mask != nullptr
                            ? g.call.key_mask + s.batch * g.call.key_mask_batch + s.key * g.call.key_mask_col
                            : nullptr;
  for (int64_t j = 0; j < smaller(first, s.n); ++j) forbid(j);
  for (int64_t j = larger(first, larger(last, 0)); j < s.n; ++j) forbid(j);
  if (keys == nullptr) return;
  for (int64_t j = first; j < last; ++j)
    if (keys[j * g.call.key_mask_col] == 0) forbid(j);
}

// Scores become weights relative to the highest so far. Returns what the sums so far are to be multiplied with.
static float to_weights(float* scores, int64_t n, float& top, float& total) {
  for (int64_t j = n; j < round_up(n, kLanes); ++j) scores[j] = -__builtin_inff();
  F highest = set(top);
  for (int64_t j = 0; j < n; j += kLanes) highest = max2(highest, load(scores + j));  // a NaN comes back by its own weight
  const float most = max_of(highest);
  const F base = set(most == -__builtin_inff() ? 0 : most);
  const F correction = exp2_down(set(top) - base);
  F sum = set(0);
  for (int64_t j = 0; j < n; j += kLanes) {
    const F weight = exp2_down(load(scores + j) - base);
    sum = sum + weight;
    store(scores + j, weight);
  }
  total = total * correction[0] + pycandle::cpu::PYCANDLE_ISA::sum(sum);
  top = most;
  return correction[0];
}

static void store_row(const CachedAttention& g, int64_t batch, int64_t head, int64_t query, const float* sums, float total) {
  float* out = g.call.out + batch * g.call.out_batch + head * g.call.out_head + query * g.call.out_row;
  const F factor = set(total == 0 ? (g.call.nan_when_nothing ? __builtin_nanf("") : 0) : 1 / total);
  for (int64_t d = 0; d < g.call.value_size; d += kLanes)
    store_n(out + d, smaller(kLanes, g.call.value_size - d), load(sums + d) * factor);
}

// n rows of a cache as f32; those of an f32 cache stay where they are.
struct KeptRows {
  const float* at;
  int64_t row;
};
static KeptRows widened(const CachedAttention& g, const float* cache, int64_t offset, int64_t row, int64_t size, int64_t n,
                        float* out) {
  if (g.kept == WeightFormat::f32) return {cache + offset, row};
  const auto* from = reinterpret_cast<const uint16_t*>(cache) + offset;
  const int64_t width = round_up(size, kLanes);
  for (int64_t j = 0; j < n; ++j) widen(g.kept, from + j * row, size, out + j * width);
  return {out, width};
}

static void one_split(const CachedAttention& g, int64_t batch, int64_t kv_head, int64_t split, float* scratch, float* partial) {
  const int64_t rows = rows_of(g), group = group_of(g), start = g.starts[batch], width = round_up(g.call.head_size, kLanes);
  const bool skips = g.call.masked_bias == 0;  // keys that no query attends
  const int64_t end = skips ? larger(0, smaller(g.call.keys, start + g.call.queries)) : g.call.keys;
  const int64_t begin = skips && g.call.window > 0 ? smaller(end, larger(0, start - g.call.window + 1)) : 0;
  float* queries = scratch;
  float* weights = queries + rows * width;
  float* own = weights + rows * kBlock;
  float* keys_here = own + rows * partial_size(g);
  float* values_here = keys_here + kBlock * width;
  float* sums = partial != nullptr ? partial : own;
  for (int64_t r = 0; r < rows; ++r) {
    const float* q = g.call.q + batch * g.call.q_batch + (kv_head * group + r / g.call.queries) * g.call.q_head +
                     r % g.call.queries * g.call.q_row;
    for (int64_t d = 0; d < g.call.head_size; ++d) queries[r * width + d] = q[d] * (g.call.scale * kLog2E);
    float* row = sums + r * partial_size(g);
    __builtin_memset(row, 0, static_cast<size_t>(partial_size(g)) * sizeof(float));
    row[padded_values(g)] = -__builtin_inff();
  }
  const bool masked = g.call.mask != nullptr || g.call.allowed != nullptr || g.call.key_mask != nullptr || g.slopes != nullptr;
  const int64_t last = begin + part_begin(end - begin, g.splits, split + 1);
  for (int64_t key = begin + part_begin(end - begin, g.splits, split); key < last; key += kBlock) {
    const int64_t n = smaller(kBlock, last - key);
    const KeptRows k = widened(g, g.call.k, batch * g.call.k_batch + kv_head * g.call.k_head + key * g.call.k_row, g.call.k_row,
                               g.call.head_size, n, keys_here);
    const KeptRows v = widened(g, g.call.v, batch * g.call.v_batch + kv_head * g.call.v_head + key * g.call.v_row, g.call.v_row,
                               g.call.value_size, n, values_here);
    for (int64_t r = 0; r < rows; ++r) {
      float* scores = weights + r * kBlock;
      float* row = sums + r * partial_size(g);
      const int64_t query = r % g.call.queries, position = start + query;
      dots(queries + r * width, k.at, k.row, n, g.call.head_size, scores);
      const bool crosses = key + n - 1 > position || (g.call.window > 0 && key <= position - g.call.window);
      if (masked || crosses) apply_masks(g, {batch, kv_head * group + r / g.call.queries, query, position, key, n, scores});
      float* ends = row + padded_values(g);
      const float correction = to_weights(scores, n, ends[0], ends[1]);
      weighted_sums(g, scores, v.at, v.row, n, correction, row);
    }
  }
  if (partial != nullptr) return;
  for (int64_t r = 0; r < rows; ++r)
    store_row(g, batch, kv_head * group + r / g.call.queries, r % g.call.queries, sums + r * partial_size(g),
              sums[r * partial_size(g) + padded_values(g) + 1]);
}

static void cached_attention(const CachedAttention& g, int64_t begin, int64_t end, float* scratch) {
  for (int64_t u = begin; u < end; ++u) {
    float* partial = g.splits > 1 ? g.partial + u * rows_of(g) * partial_size(g) : nullptr;
    one_split(g, u / g.splits / g.call.kv_heads, u / g.splits % g.call.kv_heads, u % g.splits, scratch, partial);
  }
}

// Units: heads of keys. The sums of the first split become those of all.
static void merge_attention(const CachedAttention& g, int64_t begin, int64_t end, float*) {
  const int64_t rows = rows_of(g), size = partial_size(g), sums = padded_values(g);
  for (int64_t u = begin; u < end; ++u)
    for (int64_t r = 0; r < rows; ++r) {
      float* first = g.partial + (u * g.splits * rows + r) * size;
      for (int64_t split = 1; split < g.splits; ++split) {
        const float* next = first + split * rows * size;
        const F top = max2(set(first[sums]), set(next[sums]));
        const F base = select(eq(top, set(-__builtin_inff())), set(0), top);
        const F a = exp2_down(set(first[sums]) - base), b = exp2_down(set(next[sums]) - base);
        for (int64_t d = 0; d < sums; d += kLanes) store(first + d, load(first + d) * a + load(next + d) * b);
        first[sums + 1] = first[sums + 1] * a[0] + next[sums + 1] * b[0];
        first[sums] = top[0];
      }
      store_row(g, u / g.call.kv_heads, u % g.call.kv_heads * group_of(g) + r / g.call.queries, r % g.call.queries, first,
                first[sums + 1]);
    }
}

static int64_t partial_attention_size(const CachedAttention& g) {
  return g.splits > 1 ? cached_attention_units(g) * rows_of(g) * partial_size(g) : 0;
}

void fill_cached_attention(Kernels& k) {
  k.cached_attention = cached_attention;
  k.cached_attention_units = cached_attention_units;
  k.cached_attention_scratch = cached_attention_scratch;
  k.partial_attention_size = partial_attention_size;
  SET_WITHOUT_SCRATCH(merge_attention, CachedAttention, g.call.batch * g.call.kv_heads)
  k.widen = widen;
  k.narrow = narrow;
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
