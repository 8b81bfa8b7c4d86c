// Winograd's way to a 3×3 convolution of a blocked image: y = Aᵀ [(G w Gᵀ) · (Bᵀ x B)] A for each tile of outputs, where · is a
// product over channels for each of the (tile + 2)² places. The points are 0, ±1, ∞ for tiles of 2 and 0, ±1/√2, ±√2, ∞ for
// tiles of 4: those were measured to err half as much as 0, ±1, ±2, ∞.
//
// Packed weights: [panel of out channels][place][channel][vectors][lanes].
#include <type_traits>
#include <utility>

#include "backends/cpu/kernels/isa/blocked_sums.h"
#include "backends/cpu/kernels/isa/epilogue.h"

namespace pycandle::cpu::PYCANDLE_ISA {

constexpr double kA = 0.70710678118654752440, kB = 1.41421356237309504880;  // points, with their negatives

// ---- transforms of one row or column

template <int n> using Size = std::integral_constant<int, n>;  // of a tile

INLINE void transform_input(Size<2>, const F* d, F* t) {
  t[0] = d[2] - d[0];
  t[1] = d[2] + d[1];
  t[2] = d[2] - d[1];
  t[3] = d[3] - d[1];
}
INLINE void transform_input(Size<4>, const F* d, F* t) {
  const F two = set(2), half = set(0.5f), sum = set(2.5f), a = set(static_cast<float>(kA)), b = set(static_cast<float>(kB));
  t[0] = fnma(sum, d[2], d[4] + d[0]);
  const F even = fnma(two, d[2], d[4]), odd = a * fnma(two, d[1], d[3]);
  t[1] = even + odd;
  t[2] = even - odd;
  const F other = fnma(half, d[2], d[4]), odd_other = b * fnma(half, d[1], d[3]);
  t[3] = other + odd_other;
  t[4] = other - odd_other;
  t[5] = fnma(sum, d[3], d[5] + d[1]);
}

INLINE void transform_output(Size<2>, const F* m, F* y) {
  y[0] = m[0] + m[1] + m[2];
  y[1] = m[1] - m[2] + m[3];
}
INLINE void transform_output(Size<4>, const F* m, F* y) {
  const F a = set(static_cast<float>(kA)), b = set(static_cast<float>(kB));
  const F s1 = m[1] + m[2], d1 = m[1] - m[2], s2 = m[3] + m[4], d2 = m[3] - m[4];
  y[0] = m[0] + s1 + s2;
  y[1] = fma(a, d1, b * d2);
  y[2] = fma(set(0.5f), s1, set(2) * s2);
  y[3] = fma(set(static_cast<float>(kA / 2)), d1, fma(set(static_cast<float>(2 * kB)), d2, m[5]));
}

// Row `place` of G.
static void weight_row(int64_t tile, int64_t place, double* row) {
  static constexpr double points2[] = {0, 1, -1}, norms2[] = {-1, 2, 2};
  static constexpr double points4[] = {0, kA, -kA, kB, -kB}, norms4[] = {1, -1.5, -1.5, 6, 6};
  row[0] = row[1] = 0;
  row[2] = 1;
  if (place == tile + 1) return;  // ∞
  const double point = tile == 2 ? points2[place] : points4[place], norm = tile == 2 ? norms2[place] : norms4[place];
  row[0] = 1 / norm;
  row[1] = point / norm;
  row[2] = point * point / norm;
}

// ---- how it is cut

constexpr int64_t kTransformed = 64 << 10;  // floats of transformed input that are used again and again

// The most tiles that are multiplied at once.
constexpr int kMostTiles = kSums < 16 ? kSums : 16;

struct Tiling {
  int64_t places, blocks, out_blocks, vectors, panels;
  int64_t across, own, tiles, most;  // tiles in a row, of an image, of all images, in a block of tiles
  int64_t parts;                // blocks of tiles
  int64_t in_place, out_place;  // floats from one place to the next, transformed; not a multiple of what the cache maps alike
};

static Tiling tiling_of(const Winograd& w) {
  const BlockedConvolution& g = w.shape;
  Tiling t;
  t.places = (w.tile + 2) * (w.tile + 2);
  t.blocks = g.channels / kLanes;
  t.out_blocks = divide_up(g.out_channels, kLanes);
  t.across = divide_up(g.out_width, w.tile);
  t.own = t.across * divide_up(g.out_height, w.tile);
  t.tiles = g.batch * t.own;
  const int64_t fit = larger(16, kTransformed / (t.places * g.channels));
  t.parts = divide_up(t.tiles, fit);
  t.most = divide_up(t.tiles, t.parts);
  // One vector of out channels where all tiles of a block then fit into the registers: weights are read once.
  t.vectors = 2 * t.most > kSums && t.most <= kMostTiles ? 1 : smaller(2, t.out_blocks);
  t.panels = divide_up(t.out_blocks, t.vectors);
  t.in_place = t.blocks * t.most * kLanes + kLanes;
  t.out_place = t.vectors * t.most * kLanes + kLanes;
  return t;
}

// ---- the steps

// Bᵀ x B of the window at (y, x), one block of channels.
template <int kTile>
static void transform_tile(const BlockedConvolution& g, const float* image, int64_t y, int64_t x, int64_t place, float* out) {
  constexpr int kSide = kTile + 2;
  const bool is_inside = y >= 0 && x >= 0 && y + kSide <= g.height && x + kSide <= g.width;
  F rows[kSide][kSide];
#pragma GCC unroll 6
  for (int r = 0; r < kSide; ++r) {
    F d[kSide];
    const float* row = image + ((y + r) * g.width + x) * kLanes;
    if (is_inside) {
#pragma GCC unroll 6
      for (int c = 0; c < kSide; ++c) d[c] = load(row + c * kLanes);
    } else {
      for (int c = 0; c < kSide; ++c) {
        const bool is_there = y + r >= 0 && y + r < g.height && x + c >= 0 && x + c < g.width;
        d[c] = is_there ? load(row + c * kLanes) : set(0);
      }
    }
    transform_input(Size<kTile>(), d, rows[r]);
  }
#pragma GCC unroll 6
  for (int c = 0; c < kSide; ++c) {
    F d[kSide], t[kSide];
#pragma GCC unroll 6
    for (int r = 0; r < kSide; ++r) d[r] = rows[r][c];
    transform_input(Size<kTile>(), d, t);
#pragma GCC unroll 6
    for (int r = 0; r < kSide; ++r) store(out + (r * kSide + c) * place, t[r]);
  }
}

// Aᵀ m A of one tile and block of out channels, finished and stored where outputs are.
template <int kTile>
static void finish_outputs(const BlockedConvolution& g, const float* m, int64_t place, int64_t y, int64_t x, Sums sums) {
  constexpr int kSide = kTile + 2;
  F columns[kTile][kSide];
#pragma GCC unroll 6
  for (int c = 0; c < kSide; ++c) {
    F d[kSide], t[kTile];
#pragma GCC unroll 6
    for (int r = 0; r < kSide; ++r) d[r] = load(m + (r * kSide + c) * place);
    transform_output(Size<kTile>(), d, t);
#pragma GCC unroll 4
    for (int r = 0; r < kTile; ++r) columns[r][c] = t[r];
  }
  const int64_t here = smaller(kTile, g.out_width - x);
  const F bias = sums.bias != nullptr ? load(sums.bias) : set(0), low = set(sums.low), high = set(sums.high);
  float* plane = sums.out;
#pragma GCC unroll 4
  for (int r = 0; r < kTile; ++r) {
    if (y + r >= g.out_height) break;
    F out[kTile];
    transform_output(Size<kTile>(), columns[r], out);
    const int64_t at = ((y + r) * g.out_width + x) * kLanes;
    if (sums.finishes) {
      for (int c = 0; c < kTile; ++c) {
        if (c >= here) break;
        F sum = out[c] + bias;
        if (sums.residual != nullptr) sum = sum + load(sums.residual + at + c * kLanes);
        store(plane + at + c * kLanes, min2(high, max2(low, sum)));  // NaN stays
      }
      continue;
    }
    for (int c = 0; c < here; ++c) store(plane + at + c * kLanes, out[c]);
    sums.out = plane + at;
    finish_tile(g, sums, 1, here);
  }
}

// out[vector][tile][lanes] = sum over channels of x[block of channels][tile][lane] · w[channel][vector][lanes] of one place.
struct Products {
  const float *x, *w;
  float* out;
  int64_t blocks, x_block, out_block;
  int64_t near, far;  // floats: which weights it asks for while it computes, for the first and the second cache
};

template <int kTiles, int kVectors> static void multiply(const Products& p) {
  F sum[kTiles][kVectors];
#pragma GCC unroll 16
  for (int r = 0; r < kTiles; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) sum[r][v] = set(0);
  const float* w = p.w;
  for (int64_t b = 0; b < p.blocks; ++b) {
    const float* x = p.x + b * p.x_block;
    for (int d = 0; d < kLanes; ++d, ++x, w += kVectors * kLanes) {
      F columns[kVectors];
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; ++v) {
        columns[v] = load(w + v * kLanes);
        __builtin_prefetch(w + v * kLanes + p.near, 0, 3);
        __builtin_prefetch(w + v * kLanes + p.far, 0, 2);
      }
#pragma GCC unroll 16
      for (int r = 0; r < kTiles; ++r) {
        const F here = set(x[r * kLanes]);
#pragma GCC unroll 2
        for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(here, columns[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kTiles; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; ++v) store(p.out + v * p.out_block + r * kLanes, sum[r][v]);
}

using ProductsFn = void (*)(const Products& p);
template <int kTiles, int kVectors> constexpr ProductsFn multiply_or_null() {
  if constexpr (kTiles * kVectors <= kSums) {
    return multiply<kTiles, kVectors>;
  } else {
    return nullptr;
  }
}
struct ProductsTable {
  ProductsFn at[kMostTiles][2];
};
template <int... kTiles> constexpr ProductsTable products_table(std::integer_sequence<int, kTiles...>) {
  return {{{multiply_or_null<kTiles + 1, 1>(), multiply_or_null<kTiles + 1, 2>()}...}};
}
static ProductsFn products_function(int64_t tiles, int64_t vectors) {
  static constexpr ProductsTable table = products_table(std::make_integer_sequence<int, kMostTiles>());
  return table.at[tiles - 1][vectors - 1];
}

// A block of tiles: which they are and where their transformed inputs and outputs lie.
struct Part {
  int64_t first, count;
  float *in, *out;
};

template <int kTile> static void transform_part(const BlockedConvolution& g, const Tiling& t, const Part& part) {
  const int64_t plane = g.height * g.width * kLanes;
  for (int64_t b = 0; b < t.blocks; ++b)
    for (int64_t i = 0; i < part.count; ++i) {
      const int64_t n = (part.first + i) / t.own, at = (part.first + i) % t.own;
      transform_tile<kTile>(g, g.x + (n * t.blocks + b) * plane, at / t.across * kTile - g.window.padding[0],
                            at % t.across * kTile - g.window.padding[1], t.in_place, part.in + (b * part.count + i) * kLanes);
    }
}

// The weights are one long line of memory: without asking for them early, the multipliers wait for a third of the time.
static void multiply_part(const Tiling& t, const Part& part, const float* w, int64_t vectors) {
  constexpr int64_t kNear = 512, kFar = 4096;
  const int64_t groups = divide_up(part.count, smaller(kMostTiles, kSums / t.vectors));
  for (int64_t place = 0; place < t.places; ++place, w += t.blocks * kLanes * vectors * kLanes)
    for (int64_t i = 0; i < groups; ++i) {
      const int64_t at = part_begin(part.count, groups, i), here = part_begin(part.count, groups, i + 1) - at;
      const Products p{part.in + place * t.in_place + at * kLanes,
                       w,
                       part.out + place * t.out_place + at * kLanes,
                       t.blocks,
                       part.count * kLanes,
                       part.count * kLanes,
                       i == 0 ? kNear : 0,
                       i == 0 ? kFar : 0};
      products_function(here, vectors)(p);
    }
}

template <int kTile> static void run(const Winograd& args, int64_t begin, int64_t end, float* scratch) {
  const BlockedConvolution& g = args.shape;
  const Tiling t = tiling_of(args);
  const int64_t out_plane = g.out_height * g.out_width * kLanes;
  int64_t transformed = -1;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t panel = u % t.panels, first = part_begin(t.tiles, t.parts, u / t.panels);
    const Part part{first, part_begin(t.tiles, t.parts, u / t.panels + 1) - first, scratch, scratch + t.places * t.in_place};
    if (transformed != first) transform_part<kTile>(g, t, part);
    transformed = first;
    const int64_t block = panel * t.vectors, vectors = smaller(t.vectors, t.out_blocks - block);
    multiply_part(t, part, g.packed + block * t.places * g.channels * kLanes, vectors);
    for (int64_t v = 0; v < vectors; ++v) {
      Sums sums = sums_of(g, g.epilogue.bias != nullptr ? g.epilogue.bias + (block + v) * kLanes : nullptr, out_plane);
      for (int64_t i = 0; i < part.count; ++i) {
        const int64_t n = (first + i) / t.own, at = (first + i) % t.own;
        sums.out = g.out + (n * t.out_blocks + block + v) * out_plane;
        if (g.epilogue.residual != nullptr) sums.residual = g.epilogue.residual + (sums.out - g.out);
        finish_outputs<kTile>(g, part.out + (v * part.count + i) * kLanes, t.out_place, at / t.across * kTile,
                              at % t.across * kTile, sums);
      }
    }
  }
}

static void winograd(const Winograd& g, int64_t begin, int64_t end, float* scratch) {
  if (g.tile == 2)
    run<2>(g, begin, end, scratch);
  else
    run<4>(g, begin, end, scratch);
}

// In f64, rounded once.
static void pack_winograd(const PackWinograd& p, int64_t begin, int64_t end, float*) {
  const BlockedConvolution& g = p.shape.shape;
  const Tiling t = tiling_of(p.shape);
  const int64_t side = p.shape.tile + 2;
  double rows[6][3];
  for (int64_t i = 0; i < side; ++i) weight_row(p.shape.tile, i, rows[i]);
  for (int64_t panel = begin; panel < end; ++panel) {
    const int64_t block = panel * t.vectors, width = smaller(t.vectors, t.out_blocks - block) * kLanes;
    float* to = p.out + block * t.places * g.channels * kLanes;
    for (int64_t c = 0; c < g.channels; ++c)
      for (int64_t i = 0; i < width; ++i) {
        const int64_t o = block * kLanes + i;
        double half[6][3] = {};
        for (int64_t r = 0; r < side && o < g.out_channels; ++r)
          for (int64_t k = 0; k < 3; ++k) {
            const float* w = p.weight + (o * g.channels + c) * 9 + k;
            half[r][k] = (rows[r][0] * w[0] + rows[r][1] * w[3] + rows[r][2] * w[6]) * (p.scales != nullptr ? p.scales[o] : 1);
          }
        for (int64_t r = 0; r < side; ++r)
          for (int64_t k = 0; k < side; ++k)
            to[((r * side + k) * g.channels + c) * width + i] = static_cast<float>(
                rows[k][0] * half[r][0] + rows[k][1] * half[r][1] + rows[k][2] * half[r][2]);
      }
  }
}

void fill_winograd(Kernels& k) {
  k.packed_winograd_size = [](const Winograd& g) -> int64_t {
    const Tiling t = tiling_of(g);
    return t.places * t.out_blocks * kLanes * g.shape.channels;
  };
  k.winograd_panel = [](const Winograd& g) -> int64_t { return tiling_of(g).vectors * kLanes; };
  k.winograd = winograd;
  k.winograd_units = [](const Winograd& g) -> int64_t {
    const Tiling t = tiling_of(g);
    return t.parts * t.panels;
  };
  k.winograd_scratch = [](const Winograd& g) -> int64_t {
    const Tiling t = tiling_of(g);
    return t.places * (t.in_place + t.out_place);
  };
  SET_WITHOUT_SCRATCH(pack_winograd, PackWinograd, tiling_of(g.shape).panels)
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
