// Attention without the matrix of scores: for a block of queries, one in each lane, the keys pass in blocks; the running
// maximum, sum and weighted values are corrected when a larger score comes.
//
//   scores[key, query] = tiles of keys · panel of queries        (k packed in tiles, once for each head)
//   sums[value, query] += vᵀ[value, key] · weights[key, query]   (v read as it lies)
//
// Nothing is reduced across lanes, and head sizes may be anything.
#include "backends/cpu/kernels/isa/attention.h"
#include "backends/cpu/kernels/isa/transpose.h"

namespace pycandle::cpu::PYCANDLE_ISA {

constexpr int64_t kTilesInBlock = 144 / kTileRows, kKeyBlock = kTilesInBlock * kTileRows;

static int64_t query_blocks(const Attention& g) { return divide_up(g.queries, kPanel); }
static int64_t attention_units(const Attention& g) { return g.batch * g.heads * query_blocks(g); }

// Scratch: packed keys, packed queries, weights of a block, weighted sums.
static int64_t packed_keys_size(const Attention& g) { return round_up(g.keys * g.head_size + kLanes, kLanes); }
static int64_t attention_scratch(const Attention& g) {
  return packed_keys_size(g) + (g.head_size + kKeyBlock + g.value_size) * kPanel + kLanes;
}

// The keys are cut evenly into tiles, those that a query block attends evenly into blocks of tiles.
static int64_t key_tiles(const Attention& g) { return divide_up(g.keys, kTileRows); }
static int64_t tile_begin(const Attention& g, int64_t tile) { return part_begin(g.keys, key_tiles(g), tile); }
// The tile that holds a key.
static int64_t tile_of(const Attention& g, int64_t key) {
  int64_t tile = smaller(key_tiles(g) - 1, key / kTileRows);
  while (tile_begin(g, tile + 1) <= key) ++tile;
  return tile;
}

// The keys of one head, tile after tile: [head_size][rows of the tile].
static void pack_keys(const Attention& g, const float* k, float* out) {
  for (int64_t tile = 0; tile < key_tiles(g); ++tile) {
    const int64_t row = tile_begin(g, tile), rows = tile_begin(g, tile + 1) - row;
    transpose_rows(k + row * g.k_row, g.k_row, rows, g.head_size, 1, out + row * g.head_size, rows);
  }
}

// One block of queries: what is the same for all its keys.
struct Queries {
  int64_t batch, head, first, count, vectors;
  const float *packed, *v;
  float *weights, *sums;
};

INLINE F lane_numbers() {
  float numbers[kLanes];
  for (int i = 0; i < kLanes; ++i) numbers[i] = static_cast<float>(i);
  return load(numbers);
}

INLINE F numbers_of(const float* p, int64_t n) { return load_n(p, n); }
INLINE F numbers_of(const uint8_t* p, int64_t n) { return select(truths(p, n), set(1), set(0)); }

// score = use(score, mask[query, key]) for the scores of n keys.
template <class T, class Use>
INLINE void each_masked(const Queries& b, const T* mask, int64_t row, int64_t col, int64_t n, Use use) {
  const int64_t width = b.vectors * kLanes;
  const auto update = [&](int64_t j, int64_t v, F m) ALWAYS {
    float* at = b.weights + j * width + v * kLanes;
    store(at, use(load(at), m));
  };
  if (row == 0) {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t v = 0; v < b.vectors; ++v) update(j, v, set(static_cast<float>(mask[j * col])));
  } else if (col == 1) {  // squares of it, turned
    for (int64_t v = 0; v < b.vectors; ++v)
      for (int64_t j = 0; j < n; j += kLanes) {
        const int64_t here = smaller(kLanes, n - j);
        F square[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) {
          const int64_t query = v * kLanes + i;
          square[i] = query < b.count ? numbers_of(mask + query * row + j, here) : set(0);
        }
        transpose_square(square);
        for (int64_t i = 0; i < kLanes; ++i)
          if (i < here) update(j + i, v, square[i]);
      }
  } else {
    for (int64_t j = 0; j < n; ++j)
      for (int64_t v = 0; v < b.vectors; ++v) {
        float column[kLanes] = {};
        for (int64_t i = 0; i < smaller(kLanes, b.count - v * kLanes); ++i)
          column[i] = static_cast<float>(mask[(v * kLanes + i) * row + j * col]);
        update(j, v, load(column));
      }
  }
}

// Makes the scores of keys [key, key + n) that may not be attended -inf and adds the mask.
static void apply_masks(const Attention& g, const Queries& b, int64_t key, int64_t n) {
  const int64_t width = b.vectors * kLanes;
  const float never = -__builtin_inff();
  if (g.mask != nullptr) {
    const float* mask = g.mask + b.batch * g.mask_batch + b.head * g.mask_head + b.first * g.mask_row + key * g.mask_col;
    each_masked(b, mask, g.mask_row, g.mask_col, n, [](F score, F m) ALWAYS { return score + in_powers_of_two(m); });
  }
  if (g.allowed != nullptr) {
    const uint8_t* allowed = g.allowed + b.batch * g.allowed_batch + b.head * g.allowed_head + b.first * g.allowed_row +
                             key * g.allowed_col;
    each_masked(b, allowed, g.allowed_row, g.allowed_col, n,
                [=](F score, F m) ALWAYS { return select(eq(m, set(0)), set(never), score); });
  }
  // The masks of positions: scores there become -inf, or have the bias added.
  const F bias = in_powers_of_two(set(g.masked_bias)), lanes = lane_numbers();
  const auto forbid = [&](int64_t j, int64_t from, int64_t to) {  // queries [from, to) of key j
    for (int64_t i = from / kLanes * kLanes; i < to; i += kLanes) {
      float* at = b.weights + j * width + i;
      const F score = load(at), masked = g.masked_bias != 0 ? score + bias : set(never);
      const F until = select(lt(lanes, set(static_cast<float>(to - i))), masked, score);
      store(at, select(lt(lanes, set(static_cast<float>(from - i))), score, until));
    }
  };
  const int64_t position = b.first + g.query_offset;  // of the first query
  const uint8_t* keys = g.key_mask != nullptr ? g.key_mask + b.batch * g.key_mask_batch : nullptr;
  // Without others, the causal mask begins at the diagonal.
  const bool is_only_causal = keys == nullptr && g.window <= 0;
  for (int64_t j = is_only_causal ? larger(0, g.causal ? position + 1 - key : n) : 0; j < n; ++j) {
    const int64_t here = key + j;
    if (keys != nullptr && keys[here * g.key_mask_col] == 0) {
      forbid(j, 0, width);
      continue;
    }
    const int64_t too_early = g.causal ? smaller(width, larger(0, here - position)) : 0;  // queries before the key
    const int64_t too_late = g.window > 0 ? smaller(width, larger(too_early, here + g.window - position)) : width;
    if (too_early > 0) forbid(j, 0, too_early);
    if (too_late < width) forbid(j, too_late, width);
  }
}

static void one_block(const Attention& g, const Queries& b, const float* packed_keys, float* out) {
  const int64_t width = b.vectors * kLanes;
  const int64_t last_position = b.first + b.count - 1 + g.query_offset, first_position = b.first + g.query_offset;
  const bool skips = g.masked_bias == 0;  // keys that no query of the block attends
  const int64_t end = skips && g.causal ? larger(0, smaller(g.keys, last_position + 1)) : g.keys;
  const int64_t start = skips && g.window > 0 ? larger(0, first_position - g.window + 1) : 0;
  const int64_t first_tile = start < end ? tile_of(g, start) : 0, last_tile = start < end ? tile_of(g, end - 1) + 1 : 0;
  const bool masked = g.mask != nullptr || g.allowed != nullptr || g.key_mask != nullptr;
  F top[kVectors], total[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    top[v] = set(-__builtin_inff());
    total[v] = set(0);
  }
  const int64_t blocks = divide_up(last_tile - first_tile, kTilesInBlock);
  if (blocks == 0) __builtin_memset(b.sums, 0, static_cast<size_t>(g.value_size * width) * sizeof(float));
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t tile = first_tile + part_begin(last_tile - first_tile, blocks, block);
    const int64_t next_tile = first_tile + part_begin(last_tile - first_tile, blocks, block + 1);
    const int64_t key = tile_begin(g, tile), n = tile_begin(g, next_tile) - key;
    for (int64_t t = tile; t < next_tile; ++t) {
      const int64_t row = tile_begin(g, t), rows = tile_begin(g, t + 1) - row;
      tile_function(rows, b.vectors)(g.head_size, packed_keys + row * g.head_size, rows, b.packed,
                                     b.weights + (row - key) * width, width, {}, {});
    }
    const bool crosses = (g.causal && key + n - 1 > first_position) || (g.window > 0 && key <= last_position - g.window);
    if (masked || crosses) apply_masks(g, b, key, n);
    for (int64_t v = 0; v < b.vectors; ++v) {
      float* column = b.weights + v * kLanes;
      F highest = top[v];
      // A NaN may be lost here: its own weight brings it back.
      for (int64_t j = 0; j < n; ++j) highest = max2(highest, load(column + j * width));
      // Nothing attended so far: any finite number does.
      const F base = select(eq(highest, set(-__builtin_inff())), set(0), highest);
      const F correction = exp2_down(top[v] - base);
      F sum = total[v] * correction;
      for (int64_t j = 0; j < n; ++j) {
        const F weight = exp2_down(load(column + j * width) - base);
        sum = sum + weight;
        store(column + j * width, weight);
      }
      if (block > 0 && any(negate(eq(correction, set(1)))))
        for (int64_t d = 0; d < g.value_size; ++d) {
          float* to = b.sums + d * width + v * kLanes;
          store(to, load(to) * correction);
        }
      top[v] = highest;
      total[v] = sum;
    }
    const int64_t tiles = divide_up(g.value_size, kTileRows);
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t d = part_begin(g.value_size, tiles, t), rows = part_begin(g.value_size, tiles, t + 1) - d;
      float* sums = b.sums + d * width;
      tile_function(rows, b.vectors)(n, b.v + key * g.v_row + d, g.v_row, b.weights, sums, width,
                                     {nullptr, block > 0 ? sums : nullptr, width}, {});
    }
  }
  for (int64_t v = 0; v < b.vectors; ++v) {
    const F nothing = set(g.nan_when_nothing ? __builtin_nanf("") : 0);
    const F factor = select(eq(total[v], set(0)), nothing, set(1) / total[v]);
    const int64_t count = smaller(kLanes, b.count - v * kLanes);
    for (int64_t d = 0; d < g.value_size; d += kLanes) {
      F square[kLanes];
      for (int64_t i = 0; i < kLanes; ++i)
        square[i] = d + i < g.value_size ? load(b.sums + (d + i) * width + v * kLanes) * factor : set(0);
      transpose_square(square);
      const int64_t here = smaller(kLanes, g.value_size - d);
      for (int64_t i = 0; i < kLanes; ++i)
        if (i < count) store_n(out + (v * kLanes + i) * g.out_row + d, here, square[i]);
    }
  }
}

static void attention(const Attention& g, int64_t begin, int64_t end, float* scratch) {
  float* packed_keys = scratch;
  float* packed_queries = packed_keys + packed_keys_size(g);
  float* weights = packed_queries + g.head_size * kPanel + kLanes;
  float* sums = weights + kKeyBlock * kPanel;
  const int64_t blocks = query_blocks(g), group = g.kv_heads > 0 ? g.heads / g.kv_heads : 1;
  int64_t packed_batch = -1, packed_head = -1;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t batch = u / (g.heads * blocks), head = u / blocks % g.heads, kv_head = head / group;
    if (batch != packed_batch || kv_head != packed_head) {
      pack_keys(g, g.k + batch * g.k_batch + kv_head * g.k_head, packed_keys);
      packed_batch = batch;
      packed_head = kv_head;
    }
    Queries b;
    b.batch = batch;
    b.head = head;
    b.first = u % blocks * kPanel;
    b.count = smaller(kPanel, g.queries - b.first);
    b.vectors = divide_up(b.count, kLanes);
    b.packed = packed_queries;
    b.v = g.v + batch * g.v_batch + kv_head * g.v_head;
    b.weights = weights;
    b.sums = sums;
    const float* q = g.q + batch * g.q_batch + head * g.q_head + b.first * g.q_row;
    for (int64_t v = 0; v < b.vectors; ++v)
      transpose_rows(q + v * kLanes * g.q_row, g.q_row, smaller(kLanes, b.count - v * kLanes), g.head_size, g.scale * kLog2E,
                     packed_queries + v * kLanes, b.vectors * kLanes);
    one_block(g, b, packed_keys, g.out + batch * g.out_batch + head * g.out_head + b.first * g.out_row);
  }
}

void fill_attention(Kernels& k) {
  k.attention = attention;
  k.attention_units = attention_units;
  k.attention_scratch = attention_scratch;
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
