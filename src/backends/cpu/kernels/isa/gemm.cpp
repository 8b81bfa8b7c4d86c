// Matrix products: b in panels of kPanel columns ([panel][k][kPanel], made once by pack_b or as needed), a in tiles of up
// to kTileRows rows ([tile][k][rows], made for each block), the products of a tile and a panel held in registers.
#include "backends/cpu/kernels/isa/epilogue.h"
#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/transpose.h"

namespace pycandle::cpu::PYCANDLE_ISA {

constexpr int64_t kDepth = 1024;  // of a block: a panel of b this deep stays in the second cache
constexpr int64_t kBlockRows = 256;  // of a block: so does most of the block of a

// ---- register tiles

// a as packed, a_step floats from one k to the next; or as it lies, a_step from one row to the next.
template <int rows, int vectors, bool kAsItLies>
static void tile(int64_t k, const float* a, int64_t a_step, const float* b, float* c, int64_t c_row, const Addends& addends,
                 Ahead ahead) {
  F sum[rows][vectors];
  for (int r = 0; r < rows; ++r)
    for (int v = 0; v < vectors; ++v) sum[r][v] = set(0);
  const float* next = ahead.next != nullptr ? ahead.next : b;
  const float* thirds[(rows + 2) / 3];  // every third row: few registers hold the places of all
  for (int r = 0; r < rows; r += 3) thirds[r / 3] = a + r * a_step;
  for (int64_t i = 0; i < k; ++i, b += vectors * kLanes, next += ahead.step) {
    const float* row = a + i * a_step;
    __builtin_prefetch(next, 0, 2);
    F columns[vectors];
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) columns[v] = rows == 1 ? load_streamed(b + v * kLanes) : load(b + v * kLanes);
#pragma GCC unroll 14
    for (int r = 0; r < rows; ++r) {
      const F x = set(kAsItLies ? thirds[r / 3][r % 3 * a_step + i] : row[r]);
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sum[r][v] = fma(x, columns[v], sum[r][v]);
    }
  }
  // Last: every product would be rounded to what a large bias has room for.
  if (addends.bias != nullptr) {
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) {
      const F bias = load(addends.bias + v * kLanes);
#pragma GCC unroll 14
      for (int r = 0; r < rows; ++r) sum[r][v] = sum[r][v] + bias;
    }
  }
  if (const float* added = addends.added; added != nullptr) {
#pragma GCC unroll 14
    for (int r = 0; r < rows; ++r, added += addends.added_row)
#pragma GCC unroll 2
      for (int v = 0; v < vectors; ++v) sum[r][v] = sum[r][v] + load(added + v * kLanes);
  }
#pragma GCC unroll 14
  for (int r = 0; r < rows; ++r, c += c_row)
#pragma GCC unroll 2
    for (int v = 0; v < vectors; ++v) store(c + v * kLanes, sum[r][v]);
}

TileFn tile_function(int64_t rows, int64_t vectors, bool as_it_lies) {
#define ROWS(r)                                                   \
  {                                                               \
    tile<r, 1, false>, tile<r, 2, false>, tile<r, kVectors, true> \
  }
  static constexpr TileFn functions[][3] = {
      ROWS(1), ROWS(2), ROWS(3), ROWS(4),
#if defined(__AVX2__)
      ROWS(5), ROWS(6),
#endif
#if defined(__AVX512F__)
      ROWS(7), ROWS(8), ROWS(9), ROWS(10), ROWS(11), ROWS(12), ROWS(13), ROWS(14),
#endif
  };
#undef ROWS
  return functions[rows - 1][as_it_lies ? kVectors : vectors - 1];
}

// ---- packing

void transpose_rows(const float* x, int64_t x_row, int64_t rows, int64_t cols, float scale, float* out, int64_t out_step) {
  const F factor = set(scale);
  for (int64_t c = 0; c < cols; c += kLanes) {
    const int64_t here = smaller(kLanes, cols - c);
    F square[kLanes];
    if (here == kLanes && rows == kLanes) {
      for (int r = 0; r < kLanes; ++r) square[r] = load(x + r * x_row + c) * factor;
    } else {
      for (int r = 0; r < kLanes; ++r) square[r] = r < rows ? load_n(x + r * x_row + c, here) * factor : set(0);
    }
    transpose_square(square);
    for (int i = 0; i < kLanes; ++i)
      if (i < here) store(out + (c + i) * out_step, square[i]);
  }
}

void pack_tile(const float* a, int64_t a_row, int64_t a_col, int64_t rows, int64_t k, float* out) {
  if (a_col == 1) {
    transpose_rows(a, a_row, rows, k, 1, out, rows);
  } else {
    for (int64_t i = 0; i < k; ++i)
      for (int64_t r = 0; r < rows; ++r) out[i * rows + r] = a[r * a_row + i * a_col];
  }
}

// rows of a in tiles; writes up to kLanes floats past the end.
static void pack_block(const float* a, int64_t a_row, int64_t a_col, int64_t rows, int64_t k, float* out) {
  const int64_t tiles = divide_up(rows, kTileRows);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t r0 = part_begin(rows, tiles, t), r1 = part_begin(rows, tiles, t + 1);
    pack_tile(a + r0 * a_row, a_row, a_col, r1 - r0, k, out + r0 * k);
  }
}

// cols columns of b[k, :] as [k][kPanel], the missing ones 0.
static void pack_panel(const float* b, int64_t b_row, int64_t b_col, int64_t k, int64_t cols, float* out) {
  if (b_col == 1 && cols == kPanel) {
    for (int64_t i = 0; i < k; ++i)
      for (int v = 0; v < kVectors; ++v) store(out + i * kPanel + v * kLanes, load(b + i * b_row + v * kLanes));
  } else if (b_row == 1) {
    for (int v = 0; v < kVectors; ++v) {
      const int64_t here = smaller(kLanes, larger(0, cols - v * kLanes));
      transpose_rows(b + v * kLanes * b_col, b_col, here, k, 1, out + v * kLanes, kPanel);
    }
  } else {
    for (int64_t i = 0; i < k; ++i)
      for (int64_t j = 0; j < kPanel; ++j) out[i * kPanel + j] = j < cols ? b[i * b_row + j * b_col] : 0;
  }
}

static int64_t packed_size(int64_t k, int64_t n) { return round_up(n, kPanel) * k; }
static int64_t pack_b_units(const PackB& g) { return divide_up(g.n, kPanel); }
static int64_t no_scratch(const PackB&) { return 0; }
static void pack_b(const PackB& g, int64_t begin, int64_t end, float*) {
  for (int64_t p = begin; p < end; ++p)
    pack_panel(g.b + p * kPanel * g.b_col, g.b_row, g.b_col, g.k, smaller(kPanel, g.n - p * kPanel), g.out + p * kPanel * g.k);
}

// ---- the driver

// Of the product that is computed: c is written turned when g says so.
static int64_t rows_of(const Gemm& g) { return g.turned ? g.n : g.m; }
static int64_t cols_of(const Gemm& g) { return g.turned ? g.m : g.n; }

static Product product_of(const Gemm& g, int64_t batch) {
  const int64_t i = batch / g.batch[1], j = batch % g.batch[1];
  const auto at = [&](const int64_t (&strides)[2]) { return i * strides[0] + j * strides[1]; };
  const Epilogue& e = g.epilogue;
  const float* b = g.packed != nullptr ? g.packed : g.b;
  return {g.a + at(g.a_batch), b + at(g.b_batch), g.c + at(g.c_batch),
          e.multiplier != nullptr ? e.multiplier + at(e.multiplier_batch) : nullptr,
          e.residual != nullptr ? e.residual + at(e.residual_batch) : nullptr};
}

// The rows of an image are packed by whoever multiplies them: smaller blocks, so that two threads do not pack the same.
static int64_t block_rows(const Gemm& g) { return g.turned ? 8 * kTileRows : kBlockRows; }
static int64_t row_blocks(const Gemm& g) { return divide_up(rows_of(g), block_rows(g)); }
static int64_t panels(const Gemm& g) { return divide_up(cols_of(g), kPanel); }
static int64_t gemm_units(const Gemm& g) { return g.batch[0] * g.batch[1] * row_blocks(g) * panels(g); }

static int64_t a_scratch(const Gemm& g) {
  return round_up(smaller(rows_of(g), block_rows(g)) * smaller(g.k, kDepth) + kLanes, kLanes);
}
static int64_t gemm_scratch(const Gemm& g) { return a_scratch(g) + (g.packed != nullptr ? 0 : smaller(g.k, kDepth) * kPanel); }

// tile[rows, cols] of a product to c or, turned, to cᵀ.
static void store_tile(const float* tile, int64_t rows, int64_t cols, float* c, int64_t c_row, bool turned, bool accumulate) {
  if (!turned) {
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t j = 0; j < cols; j += kLanes) {
        const int64_t here = smaller(kLanes, cols - j);
        float* to = c + r * c_row + j;
        const F sum = load(tile + r * kPanel + j);
        store_n(to, here, accumulate ? load_n(to, here) + sum : sum);
      }
    return;
  }
  for (int64_t j = 0; j < cols; j += kLanes) {
    F square[kLanes];
    for (int64_t r = 0; r < kLanes; ++r) square[r] = r < rows ? load(tile + r * kPanel + j) : set(0);
    transpose_square(square);
    for (int64_t i = 0; i < smaller(kLanes, cols - j); ++i) {
      float* to = c + (j + i) * c_row;
      store_n(to, rows, accumulate ? load_n(to, rows) + square[i] : square[i]);
    }
  }
}

// What a whole tile adds by itself, taken from the piece: the rest is left to finish. on_c: a part of the sum is in c.
static Addends take_addends(const Epilogue& e, Piece& piece, bool is_last, bool on_c) {
  Addends out;
  if (e.scale == 1 && is_last) {
    out.bias = piece.bias;
    piece.bias = nullptr;
  }
  if (on_c) {
    out.added = piece.c;
    out.added_row = piece.c_row;
  } else if (only_adds(e)) {
    out.added = piece.residual;
    out.added_row = e.residual_row;
  }
  if (only_adds(e)) piece.residual = nullptr;
  return out;
}

// Asks for a whole tile of x, which its product will need when it is done.
static void fetch_tile(const float* x, int64_t row, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r, x += row)
    for (int v = 0; v < kVectors; ++v) __builtin_prefetch(x + v * kLanes);
}

// Rows of a that are read where they lie: packing them would take longer than it saves, but for those that share their places in
// the first cache.
static bool reads_rows(const Gemm& g) {
  return !g.turned && g.packed_a == nullptr && g.image == nullptr && g.a_col == 1 && g.a_row % 1024 != 0;
}

// Rows [row, row + rows) of a product, panels [first_panel, last_panel).
static void multiply_block(const Gemm& g, const Product& p, int64_t row, int64_t rows, int64_t first_panel, int64_t last_panel,
                           float* scratch) {
  const int64_t depths = larger(1, divide_up(g.k, kDepth)), tiles = divide_up(rows, kTileRows);
  const Epilogue& epilogue = g.epilogue;
  // Sums go on top of a residual that c itself holds.
  const bool on_top = epilogue.residual != nullptr && p.residual == p.c;
  const int64_t step = divide_up(kPanel, tiles);
  const bool as_it_lies = reads_rows(g);
  float* packed_panel = scratch + a_scratch(g);
  for (int64_t d = 0; d < depths; ++d) {
    const int64_t k0 = part_begin(g.k, depths, d), k = part_begin(g.k, depths, d + 1) - k0;
    const float* a = g.packed_a + row * g.k + rows * k0;
    if (g.turned) {
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r0 = part_begin(rows, tiles, t), here = part_begin(rows, tiles, t + 1) - r0;
        pack_image_panel(*g.image, g.b, k0, k, row + r0, here, here, scratch + r0 * k);
      }
      a = scratch;
    } else if (as_it_lies) {
      a = p.a + row * g.a_row + k0;
    } else if (g.packed_a == nullptr) {
      pack_block(p.a + row * g.a_row + k0 * g.a_col, g.a_row, g.a_col, rows, k, scratch);
      a = scratch;
    }
    for (int64_t panel = first_panel; panel < last_panel; ++panel) {
      const int64_t col = panel * kPanel, cols = smaller(kPanel, cols_of(g) - col);
      const float* b = packed_panel;
      if (g.packed != nullptr) {
        b = p.b + (panel * g.k + k0) * kPanel;
      } else if (g.image != nullptr) {
        pack_image_panel(*g.image, p.b, k0, k, col, cols, kPanel, packed_panel);
      } else {
        pack_panel(p.b + k0 * g.b_row + col * g.b_col, g.b_row, g.b_col, k, cols, packed_panel);
      }
      for (int64_t t = 0; t < tiles; ++t) {
        const int64_t r0 = part_begin(rows, tiles, t), here = part_begin(rows, tiles, t + 1) - r0;
        Piece piece = g.turned ? piece_of(g, p, col, row + r0, cols, here) : piece_of(g, p, row + r0, col, here, cols);
        const TileFn multiply = tile_function(here, kVectors, as_it_lies);
        const float* from = a + r0 * (as_it_lies ? g.a_row : k);
        const int64_t a_step = as_it_lies ? g.a_row : here;
        // Each tile fetches its share of the next panel, which comes from far away.
        const Ahead ahead = tiles > 1 && g.packed != nullptr && panel + 1 < last_panel
                                ? Ahead{b + g.k * kPanel + t * step * k, step}
                                : Ahead{};
        const bool on_c = d > 0 || on_top;
        if (on_top) piece.residual = nullptr;
        float sums[kLanes * kPanel];  // no fewer rows than store_tile turns
        if (cols == kPanel && !g.turned) {
          fetch_tile(piece.c, piece.c_row, here);
          if (piece.residual != nullptr) fetch_tile(piece.residual, epilogue.residual_row, here);
          const Addends addends = take_addends(epilogue, piece, d + 1 == depths, on_c);
          if (d + 1 == depths && !only_adds(epilogue)) {  // c is written once, by finish
            piece.from = sums;
            piece.from_row = kPanel;
          }
          float* to = piece.from == sums ? sums : piece.c;
          multiply(k, from, a_step, b, to, piece.from_row, addends, ahead);
        } else {
          multiply(k, from, a_step, b, sums, kPanel, {}, ahead);
          store_tile(sums, here, cols, piece.c, g.c_row, g.turned, on_c);
        }
        if (d + 1 == depths && !is_finished(epilogue, piece)) finish(epilogue, piece);
      }
    }
  }
}

// Few rows, and a matrix that is not packed: it is read once, where it lies.
static bool is_thin(const Gemm& g) {
  const bool on_top = g.epilogue.residual != nullptr && g.epilogue.residual == g.c;
  return g.packed == nullptr && !g.as_if_packed && g.packed_a == nullptr && g.image == nullptr && g.m <= kThinRows &&
         g.a_col == 1 && (g.b_row == 1 || g.b_col == 1) && !on_top;
}

static void multiply_thin(const Gemm& g, const Product& p, int64_t first_panel, int64_t last_panel) {
  const int64_t col = first_panel * kPanel, cols = smaller(last_panel * kPanel, g.n) - col;
  thin_product({g.m, cols, g.k, p.a, g.a_row, p.b + col * g.b_col, g.b_row, g.b_col, p.c + col, g.c_row});
  const Piece piece = piece_of(g, p, 0, col, g.m, cols);
  if (!is_finished(g.epilogue, piece)) finish(g.epilogue, piece);
}

// The blocks of a, one after the other, as multiply_block reads them.
static void pack_a(const PackA& g, int64_t, int64_t, float*) {
  const int64_t blocks = divide_up(g.m, kBlockRows), depths = divide_up(g.k, kDepth);
  for (int64_t block = 0; block < blocks; ++block) {
    const int64_t row = part_begin(g.m, blocks, block), rows = part_begin(g.m, blocks, block + 1) - row;
    for (int64_t d = 0; d < depths; ++d) {
      const int64_t k0 = part_begin(g.k, depths, d), k = part_begin(g.k, depths, d + 1) - k0;
      pack_block(g.a + row * g.a_row + k0 * g.a_col, g.a_row, g.a_col, rows, k, g.out + row * g.k + rows * k0);
    }
  }
}

static void gemm(const Gemm& g, int64_t begin, int64_t end, float* scratch) {
  const int64_t across = panels(g), blocks = row_blocks(g);
  while (begin < end) {
    const int64_t batch = begin / (blocks * across), block = begin / across % blocks, panel = begin % across;
    const int64_t last = smaller(across, panel + end - begin);
    if (is_thin(g)) {
      multiply_thin(g, product_of(g, batch), panel, last);
      begin += last - panel;
      continue;
    }
    const int64_t row = part_begin(rows_of(g), blocks, block), rows = part_begin(rows_of(g), blocks, block + 1) - row;
    multiply_block(g, product_of(g, batch), row, rows, panel, last, scratch);
    begin += last - panel;
  }
}

void fill_gemm(Kernels& k) {
  k.panel = kPanel;
  k.packed_size = packed_size;
  k.gemm = gemm;
  k.gemm_units = gemm_units;
  k.gemm_scratch = gemm_scratch;
  k.pack_b = pack_b;
  k.pack_b_units = pack_b_units;
  k.pack_b_scratch = no_scratch;
  k.packed_a_size = [](int64_t m, int64_t depth) -> int64_t { return m * depth + kLanes; };
  k.pack_a = pack_a;
  k.pack_a_units = [](const PackA&) -> int64_t { return 1; };
  k.pack_a_scratch = [](const PackA&) -> int64_t { return 0; };
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
