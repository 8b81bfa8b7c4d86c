// Products with narrow weights (narrow_layout.h). Four ways through one driver:
//  - few rows: f32 activations, weights widened in registers;
//  - pairs: activations become bf16 or int16, and the multipliers take two neighbours of k at once;
//  - matrices: the same activations, and instructions that multiply matrices of them;
//  - wide: a panel of weights becomes f32 in the second cache, then the tiles of gemm. Always there, and exact but for sums.
#include "backends/cpu/kernels/narrow_layout.h"

#include "backends/cpu/kernels/isa/epilogue.h"
#include "backends/cpu/kernels/isa/halves.h"
#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/transpose.h"
#include "backends/cpu/kernels/narrow_tiles.h"

namespace pycandle::cpu::PYCANDLE_ISA {

NarrowTiles narrow_tiles();
void use_narrow_tiles(Kernels& k, const NarrowTiles& tiles);
void use_narrow_matrices(Kernels& k, const NarrowTiles& tiles, const NarrowMatrices& matrices);

// What multiplies: of this instruction set, or of one that has more.
struct Means {
  NarrowTiles tiles;
  NarrowMatrices matrices;
};

constexpr int64_t kDepth = 1024;      // of a block; a multiple of every group
constexpr int64_t kBlockRows = 252;   // of a block: whole tiles

constexpr int64_t kMatrixRows = 16;    // rows of a tile of a matrix, of 64 bytes

enum class Way { few, pairs, matrices, wide };

// int4 needs registers for what its words still hold.
static int64_t most_rows(Way way, WeightFormat format) {
  if (way == Way::matrices) return NarrowMatrix::kMost;
  return format == WeightFormat::int4 ? kTileRows - 2 : kTileRows;
}
static int64_t row_blocks(const Gemm& g) { return divide_up(g.m, kBlockRows); }
static int64_t panels(const Gemm& g) { return divide_up(g.n, kPanel); }

// ---- one panel as f32

template <class T> INLINE T number_at(const uint8_t* p, int64_t at) {
  T out;
  __builtin_memcpy(&out, p + at * static_cast<int64_t>(sizeof(T)), sizeof(T));
  return out;
}

// The number of row i and column j of a panel.
template <WeightFormat format> INLINE float weight_at(const uint8_t* panel, int64_t i, int64_t j) {
  if constexpr (format == WeightFormat::bf16) {
    return bf16_value(number_at<uint16_t>(panel, (i / 2 * kPanel + j) * 2 + i % 2));
  } else if constexpr (format == WeightFormat::f16) {
    return half_value(number_at<uint16_t>(panel, i * kPanel + j));
  } else if constexpr (format == WeightFormat::int8) {
    const auto* numbers = reinterpret_cast<const int8_t*>(panel + narrow_head(format, kPanel));
    const int64_t at = (i / 2 * kPanel + j) * 2 + i % 2;
    return static_cast<float>(numbers[at]) * number_at<float>(panel, j);
  } else {
    const uint8_t* group = panel + narrow_body(format, i / kGroup4 * kGroup4, kPanel);
    const int64_t at = i % kGroup4;
    const uint32_t word = number_at<uint32_t>(group + kPanel * 2, at / 8 * kPanel + j);
    const uint32_t index = word >> (at % 8 / 2 * 4 + at % 2 * 16) & 15;
    return static_cast<float>(static_cast<int32_t>(index) - 8) *
           from_bits(static_cast<uint32_t>(number_at<uint16_t>(group, j)) << 16);
  }
}

// Rows [k0, k0 + k) as [k][kPanel].
template <WeightFormat format> static void unpack(const uint8_t* panel, int64_t k0, int64_t k, float* out) {
  for (int64_t i = 0; i < k; ++i)
    for (int64_t j = 0; j < kPanel; ++j) out[i * kPanel + j] = weight_at<format>(panel, k0 + i, j);
}

template <WeightFormat format> static void one_column(const uint8_t* panel, int64_t column, int64_t k, float* out) {
  for (int64_t i = 0; i < k; ++i) out[i] = weight_at<format>(panel, i, column);
}

// f with the format as a constant.
template <class Function> INLINE void with_format(WeightFormat format, Function f) {
  switch (format) {
    case WeightFormat::bf16: f.template operator()<WeightFormat::bf16>(); break;
    case WeightFormat::f16: f.template operator()<WeightFormat::f16>(); break;
    case WeightFormat::int8: f.template operator()<WeightFormat::int8>(); break;
    default: f.template operator()<WeightFormat::int4>(); break;
  }
}

static void unpack_panel(WeightFormat format, const uint8_t* panel, int64_t k0, int64_t k, float* out) {
  with_format(format, [&]<WeightFormat f> { unpack<f>(panel, k0, k, out); });
}

static void gather_narrow(const GatherNarrow& g, int64_t begin, int64_t end, float*) {
  const int64_t bytes = narrow_panel_bytes(g.format, g.k, kPanel);
  with_format(g.format, [&]<WeightFormat f> {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = g.index != nullptr ? g.index[i] : g.index32[i];
      one_column<f>(g.narrow + row / kPanel * bytes, row % kPanel, g.k, g.out + i * g.k);
    }
  });
}

// ---- activations as pairs of 16 bits

static void to_bf16(const float* x, int64_t n, uint16_t* out) {
  for (int64_t i = 0; i < n; ++i) out[i] = bf16_bits(x[i]);
}

// A group of activations as whole numbers of at most 32767; the scale, or NaN when one of them is not finite.
static float to_int16(const float* x, int64_t n, uint16_t* out) {
  int32_t most = 0;
  for (int64_t i = 0; i < n; ++i) {
    int32_t bits;
    __builtin_memcpy(&bits, x + i, 4);
    bits &= INT32_MAX;
    most = bits > most ? bits : most;  // as numbers: the order of their bits is theirs
  }
  if (most >= 0x7f800000) return __builtin_nanf("");
  const float largest = from_bits(static_cast<uint32_t>(most));
  const bool is_nothing = largest < 1e-30f;
  const float factor = is_nothing ? 0 : 32767 / largest;
  for (int64_t i = 0; i < n; ++i) {
    const float shifted = x[i] * factor + 12582912.0f;  // leaves the nearest whole number in the lowest bits
    uint32_t bits;
    __builtin_memcpy(&bits, &shifted, 4);
    out[i] = static_cast<uint16_t>(bits);
  }
  return is_nothing ? 0 : largest / 32767;
}

// x[rows][cols] words as [cols][rows]; writes up to kLanes words past the end.
static void transpose_words(const float* x, int64_t x_row, int64_t rows, int64_t cols, float* out) {
  for (int64_t c = 0; c < cols; c += kLanes) {
    const int64_t here = smaller(kLanes, cols - c);
    F square[kLanes];
    for (int r = 0; r < kLanes; ++r) square[r] = r < rows ? load_n(x + r * x_row + c, here) : set(0);
    transpose_square(square);
    for (int i = 0; i < kLanes; ++i)
      if (i < here) store(out + (c + i) * rows, square[i]);
  }
}

// ---- the driver

static Way way_of(const Means& by, WeightFormat format, int64_t rows) {
  const NarrowTiles& tiles = by.tiles;
  const bool is_few = rows <= NarrowTiles::kFew;
  switch (format) {
    case WeightFormat::bf16:
      if (is_few && tiles.few_bf16[rows - 1] != nullptr) return Way::few;
      if (!is_few && by.matrices.bf16 != nullptr) return Way::matrices;
      return tiles.bf16[0] != nullptr ? Way::pairs : Way::wide;
    case WeightFormat::f16: return is_few && tiles.few_f16[rows - 1] != nullptr ? Way::few : Way::wide;
    case WeightFormat::int8:
      if (!is_few && by.matrices.int8 != nullptr) return Way::matrices;
      [[fallthrough]];
    default: return tiles.int8[0] != nullptr ? Way::pairs : Way::wide;
  }
}

static NarrowTileFn tile_of(const NarrowTiles& tiles, WeightFormat format, Way way, int64_t rows) {
  switch (format) {
    case WeightFormat::bf16: return way == Way::few ? tiles.few_bf16[rows - 1] : tiles.bf16[rows - 1];
    case WeightFormat::f16: return tiles.few_f16[rows - 1];
    case WeightFormat::int8: return tiles.int8[rows - 1];
    default: return tiles.int4[rows - 1];
  }
}

// Scratch, in floats: the block of a, its scales and sums, a row of it, a tile by rows, a panel.
struct Scratch {
  int64_t rows, depth;  // of a block
  int64_t a, scales, sums, row, words, panel, all;
};
static Scratch scratch_of(const Gemm& g) {
  Scratch s{};
  s.rows = smaller(g.m, kBlockRows);
  // A tile of rows is small: the panels pass in one go.
  s.depth = round_up(g.m <= most_rows(Way::pairs, g.format) ? larger(g.k, 1) : smaller(g.k, kDepth), kGroup4);
  int64_t at = 0;
  const auto take = [&](int64_t floats) {
    const int64_t here = at;
    at += round_up(floats + kLanes, 16);
    return here;
  };
  s.a = take(round_up(s.rows, kMatrixRows) * s.depth);
  s.scales = take(s.rows * divide_up(s.depth, kGroup16));
  s.sums = take(s.rows * divide_up(s.depth, kGroup4));
  s.row = take(round_up(s.depth, 64));
  s.words = take(kTileRows * s.depth / 2);
  s.panel = take(larger(smaller(s.depth, kDepth), divide_up(s.depth, 4) + kMatrixRows) * kPanel);
  s.all = at;
  return s;
}
static int64_t narrow_scratch(const Gemm& g) { return scratch_of(g).all; }

// Rows and depths of a that are multiplied together.
struct Block {
  int64_t row, rows, k0, k;
  Way way;
  int64_t tiles;
  int64_t tile_begin(int64_t t) const {
    return way == Way::matrices ? smaller(rows, t * NarrowMatrix::kMost) : part_begin(rows, tiles, t);
  }
};

static void pack_floats(const Gemm& g, const Block& b, const Scratch& s, float* scratch) {
  const int64_t k = narrow_depth(g.format, b.k);
  for (int64_t t = 0; t < b.tiles; ++t) {
    const int64_t r0 = b.tile_begin(t), rows = b.tile_begin(t + 1) - r0;
    float* out = scratch + s.a + r0 * k;
    pack_tile(g.a + (b.row + r0) * g.a_row + b.k0 * g.a_col, g.a_row, g.a_col, rows, b.k, out);
    for (int64_t i = b.k * rows; i < k * rows; ++i) out[i] = 0;
  }
}

// Rows as they lie, each up to whole tiles: bytes from one to the next, and from the upper bytes of int16 to the lower ones.
struct MatrixRows {
  int64_t bytes, low;
};
static MatrixRows matrix_rows(const Gemm& g, const Block& b) {
  const bool is_bf16 = g.format == WeightFormat::bf16;
  const int64_t bytes = round_up(b.k * (is_bf16 ? 2 : 1), 64);
  return {bytes, is_bf16 ? 0 : bytes * round_up(b.rows, kMatrixRows)};
}

// False as of pack_pairs.
static bool pack_matrices(const Gemm& g, const Block& b, const Scratch& s, float* scratch) {
  const MatrixRows at = matrix_rows(g, b);
  const int64_t groups = divide_up(b.k, kGroup16), k = round_up(b.k, 64);
  auto* bytes = reinterpret_cast<uint8_t*>(scratch + s.a);
  float* row = scratch + s.row;
  auto* halves = reinterpret_cast<uint16_t*>(scratch + s.words);
  for (int64_t r = 0; r < round_up(b.rows, kMatrixRows); ++r) {
    uint8_t* out = bytes + r * at.bytes;
    if (r >= b.rows) {
      __builtin_memset(out, 0, static_cast<size_t>(at.bytes));
      if (at.low > 0) __builtin_memset(out + at.low, 0, static_cast<size_t>(at.bytes));
      continue;
    }
    const float* x = g.a + (b.row + r) * g.a_row + b.k0 * g.a_col;
    for (int64_t i = 0; i < b.k; ++i) row[i] = x[i * g.a_col];
    for (int64_t i = b.k; i < k; ++i) row[i] = 0;
    if (g.format == WeightFormat::bf16) {
      to_bf16(row, at.bytes / 2, reinterpret_cast<uint16_t*>(out));
      continue;
    }
    const int64_t tile = r / NarrowMatrix::kMost, r0 = tile * NarrowMatrix::kMost, rows = b.tile_begin(tile + 1) - r0;
    for (int64_t i = 0; i < groups; ++i) {
      const float scale = to_int16(row + i * kGroup16, smaller(kGroup16, k - i * kGroup16), halves + i * kGroup16);
      if (scale != scale) return false;
      scratch[s.scales + r0 * groups + i * rows + r - r0] = scale;
    }
    for (int64_t i = 0; i < k; ++i) {
      out[i] = static_cast<uint8_t>(halves[i] >> 8);
      out[at.low + i] = static_cast<uint8_t>(halves[i]);
    }
  }
  return true;
}

// int8 in pairs of k as [k / 4][column][4], with zeros up to 64 of k.
static void to_quads(const uint8_t* pairs, int64_t k, uint8_t* out) {
  const auto* from = reinterpret_cast<const uint16_t*>(pairs);
  auto* to = reinterpret_cast<uint16_t*>(out);
  const int64_t there = k / 2;
  for (int64_t i = 0; i < round_up(k, 64) / 2; i += 2, from += 2 * kPanel, to += 2 * kPanel)
    for (int64_t j = 0; j < kPanel; ++j) {
      to[2 * j] = i < there ? from[j] : uint16_t{0};
      to[2 * j + 1] = i + 1 < there ? from[kPanel + j] : uint16_t{0};
    }
}

// False when an activation is not finite, and whole numbers cannot say it.
static bool pack_pairs(const Gemm& g, const Block& b, const Scratch& s, float* scratch) {
  const int64_t k = narrow_depth(g.format, b.k), groups = divide_up(k, kGroup16), small_groups = divide_up(k, kGroup4);
  auto* sums = reinterpret_cast<int32_t*>(scratch + s.sums);
  float *row = scratch + s.row, *words = scratch + s.words;
  for (int64_t t = 0; t < b.tiles; ++t) {
    const int64_t r0 = b.tile_begin(t), rows = b.tile_begin(t + 1) - r0;
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = g.a + (b.row + r0 + r) * g.a_row + b.k0 * g.a_col;
      for (int64_t i = 0; i < b.k; ++i) row[i] = x[i * g.a_col];
      for (int64_t i = b.k; i < k; ++i) row[i] = 0;
      auto* halves = reinterpret_cast<uint16_t*>(words + r * (k / 2));
      if (g.format == WeightFormat::bf16) {
        to_bf16(row, k, halves);
        continue;
      }
      for (int64_t i = 0; i < groups; ++i) {
        const float scale = to_int16(row + i * kGroup16, smaller(kGroup16, k - i * kGroup16), halves + i * kGroup16);
        if (scale != scale) return false;
        scratch[s.scales + r0 * groups + i * rows + r] = scale;
      }
      for (int64_t i = 0; g.format == WeightFormat::int4 && i < small_groups; ++i) {
        int32_t sum = 0;
        for (int64_t j = 0; j < kGroup4; ++j) sum += static_cast<int16_t>(halves[i * kGroup4 + j]);
        sums[r0 * small_groups + i * rows + r] = sum;
      }
    }
    transpose_words(words, k / 2, rows, k / 2, scratch + s.a + r0 * (k / 2));
  }
  return true;
}

// The sums of a tile go where they belong: on top of what c holds, or to c; through the epilogue when they are complete.
static void deliver(const Gemm& g, Piece& piece, float* sums, bool on_c, bool is_last) {
  if (on_c)
    for (int64_t r = 0; r < piece.rows; ++r)
      for (int64_t j = 0; j < piece.cols; j += kLanes)
        store(sums + r * kPanel + j,
              load(sums + r * kPanel + j) + load_n(piece.c + r * piece.c_row + j, smaller(kLanes, piece.cols - j)));
  piece.from = sums;
  piece.from_row = kPanel;
  if (is_last) {
    finish(g.epilogue, piece);
    return;
  }
  const Epilogue nothing;
  piece.bias = piece.row_bias = piece.multiplier = piece.residual = nullptr;
  finish(nothing, piece);
}

// A tile of the block times a panel, by what the block's way is.
static void multiply_tile(const Gemm& g, const Means& by, const Block& b, const Scratch& s, NarrowTile& tile, int64_t t,
                          float* scratch, float* sums) {
  const int64_t r0 = b.tile_begin(t), rows = b.tile_begin(t + 1) - r0, k = tile.k;
  float *panel = scratch + s.panel, *a_scales = scratch + s.scales + r0 * divide_up(k, kGroup16);
  if (b.way == Way::wide) {
    tile_function(rows, kVectors)(b.k, scratch + s.a + r0 * k, rows, panel, sums, kPanel, {}, {});
  } else if (b.way == Way::matrices) {
    const MatrixRows at = matrix_rows(g, b);
    NarrowMatrix m;
    m.rows = rows;
    m.k = k;
    m.a = reinterpret_cast<const uint8_t*>(scratch + s.a) + r0 * at.bytes;
    m.a_low = m.a + at.low;
    m.a_row = at.bytes;
    m.a_scales = a_scales;
    m.b = g.format == WeightFormat::int8 ? reinterpret_cast<const uint8_t*>(panel) : tile.b;
    m.scales = tile.scales;
    m.sums = sums;
    (g.format == WeightFormat::int8 ? by.matrices.int8 : by.matrices.bf16)(m);
  } else {
    tile.a = scratch + s.a + r0 * (b.way == Way::pairs ? k / 2 : k);
    tile.a_scales = a_scales;
    tile.a_sums = reinterpret_cast<const int32_t*>(scratch + s.sums) + r0 * divide_up(k, kGroup4);
    tile.sums = sums;
    tile_of(by.tiles, g.format, b.way, rows)(tile);
  }
}

static void multiply_panel(const Gemm& g, const Means& by, const Block& b, const Scratch& s, int64_t panel, int64_t last_panel,
                           float* scratch) {
  const int64_t k = narrow_depth(g.format, b.k), col = panel * kPanel, cols = smaller(kPanel, g.n - col);
  const int64_t bytes = narrow_panel_bytes(g.format, g.k, kPanel), head = narrow_head(g.format, kPanel);
  const uint8_t* whole = g.narrow + panel * bytes;
  const Product product{g.a, nullptr, g.c, g.epilogue.multiplier, g.epilogue.residual};
  const bool on_top = g.epilogue.residual != nullptr && g.epilogue.residual == g.c;
  NarrowTile tile;
  tile.k = k;
  tile.b = whole + head + narrow_body(g.format, b.k0, kPanel);
  tile.scales = whole;
  if (b.way == Way::wide) unpack_panel(g.format, whole, b.k0, b.k, scratch + s.panel);
  if (b.way == Way::matrices && g.format == WeightFormat::int8)
    to_quads(tile.b, k, reinterpret_cast<uint8_t*>(scratch + s.panel));
  for (int64_t t = 0; t < b.tiles; ++t) {
    const int64_t r0 = b.tile_begin(t), rows = b.tile_begin(t + 1) - r0;
    alignas(64) float sums[NarrowMatrix::kMost * kPanel];
    if (b.tiles > 1 && panel + 1 < last_panel) {  // each tile asks for its share of the next panel
      tile.step = divide_up(narrow_body(g.format, k, kPanel), larger(1, b.tiles * k / 2));
      tile.next = tile.b + bytes + t * tile.step * (k / 2);
    }
    multiply_tile(g, by, b, s, tile, t, scratch, sums);
    Piece piece = piece_of(g, product, b.row + r0, col, rows, cols);
    if (on_top) piece.residual = nullptr;
    deliver(g, piece, sums, on_top || b.k0 > 0, b.k0 + b.k >= g.k);
  }
}

static void multiply_rows(const Gemm& g, const Means& by, Way way, int64_t row, int64_t rows, int64_t first_panel,
                          int64_t last_panel, float* scratch) {
  const Scratch s = scratch_of(g);
  const int64_t depth = way == Way::wide ? smaller(s.depth, kDepth) : s.depth;
  int64_t k0 = 0;
  do {
    const auto block_by = [&](Way by_way) {
      return Block{row, rows, k0, smaller(depth, g.k - k0), by_way, divide_up(rows, most_rows(by_way, g.format))};
    };
    Block b = block_by(way);
    const bool is_packed = way == Way::pairs      ? pack_pairs(g, b, s, scratch)
                           : way == Way::matrices ? pack_matrices(g, b, s, scratch)
                                                  : false;
    if (!is_packed) {
      if (way == Way::pairs || way == Way::matrices) b = block_by(Way::wide);
      if (b.way != way && b.k > kDepth) return multiply_rows(g, by, Way::wide, row, rows, first_panel, last_panel, scratch);
      pack_floats(g, b, s, scratch);
    }
    if (b.way == Way::matrices) by.matrices.enter();
    for (int64_t panel = first_panel; panel < last_panel; ++panel) multiply_panel(g, by, b, s, panel, last_panel, scratch);
    if (b.way == Way::matrices) by.matrices.leave();
    k0 += depth;
  } while (k0 < g.k);
}

constexpr int kVariants = 3;  // of this instruction set, of one that has more tiles, of one that has matrices
static Means means_of[kVariants];

template <int variant> static void narrow_gemm(const Gemm& g, int64_t begin, int64_t end, float* scratch) {
  const Means& by = means_of[variant];
  const int64_t across = panels(g), blocks = row_blocks(g);
  while (begin < end) {
    const int64_t block = begin / across, panel = begin % across, last = smaller(across, panel + end - begin);
    const int64_t row = part_begin(g.m, blocks, block), rows = part_begin(g.m, blocks, block + 1) - row;
    multiply_rows(g, by, way_of(by, g.format, rows), row, rows, panel, last, scratch);
    begin += last - panel;
  }
}

void fill_narrow(Kernels& k) {
  means_of[0].tiles = narrow_tiles();
  k.narrow_gemm = narrow_gemm<0>;
  k.narrow_gemm_units = [](const Gemm& g) -> int64_t { return row_blocks(g) * panels(g); };
  k.narrow_gemm_scratch = narrow_scratch;
  SET_WITHOUT_SCRATCH(gather_narrow, GatherNarrow, g.count)
}

void use_narrow_tiles(Kernels& k, const NarrowTiles& tiles) {
  means_of[1].tiles = tiles;
  k.narrow_gemm = narrow_gemm<1>;
}

void use_narrow_matrices(Kernels& k, const NarrowTiles& tiles, const NarrowMatrices& matrices) {
  means_of[2] = {tiles, matrices};
  k.narrow_gemm = narrow_gemm<2>;
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
