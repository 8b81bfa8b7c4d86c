// Blocks of products with narrow weights on matrices of registers (AMX): up to 32 rows and one panel at a time. Compiled for amx,
// and for amx_model, where loops stand for the tile instructions, so that packing and tiling are tested on every machine.
//
//   bf16   sums[32, panel] stays in four tiles over all of k
//   int8   an int16 activation is 256 times a signed byte plus an unsigned one, so a product is two: exact, as int16's own is
#include "backends/cpu/kernels/isa/vector.h"
#include "backends/cpu/kernels/narrow_layout.h"
#include "backends/cpu/kernels/narrow_tiles.h"

namespace pycandle::cpu::PYCANDLE_ISA {

NarrowMatrices narrow_matrices();  // the only name that others see

constexpr int kVectors = 2, kPanel = kVectors * kLanes;
constexpr int kRows = 16, kBytes = 64;  // of a tile
constexpr int kColumns = kPanel < kRows ? kPanel : kRows;  // of a tile of sums: four bytes each
constexpr int kSpan = kColumns * 4;  // bytes from a row of such a tile to the next
static_assert(kPanel <= 2 * kColumns);

#if defined(__AMX_TILE__)

struct Shape {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t bytes[16] = {kBytes, kBytes, kBytes, kBytes, kBytes, kBytes, kBytes, kBytes};
  uint8_t rows[16] = {kRows, kRows, kRows, kRows, kRows, kRows, kRows, kRows};
};
// gcc does not know that these instructions read memory.
#define WRITTEN __asm__ volatile("" ::: "memory")
static void enter() {
  static const Shape shape;
  _tile_loadconfig(&shape);
}
static void leave() { _tile_release(); }
// Numbers of tiles are part of an instruction.
#define TILE_ZERO(t) _tile_zero(t)
#define TILE_LOAD(t, from, stride) \
  do {                             \
    WRITTEN;                       \
    _tile_loadd(t, from, stride);  \
  } while (false)
#define TILE_STORE(t, to, stride) _tile_stored(t, to, stride)
#define TILE_BF16(c, a, b) _tile_dpbf16ps(c, a, b)
#define TILE_SIGNED(c, a, b) _tile_dpbssd(c, a, b)
#define TILE_UNSIGNED(c, a, b) _tile_dpbusd(c, a, b)

#else

// The instructions as Intel's manual writes them down.
struct Tile {
  uint8_t at[kRows][kBytes];
};
static thread_local Tile tile[8];
template <class T> INLINE T number(const Tile& t, int row, int column) {
  T out;
  __builtin_memcpy(&out, t.at[row] + column * static_cast<int>(sizeof(T)), sizeof(T));
  return out;
}
template <class T> INLINE void put(Tile& t, int row, int column, T x) {
  __builtin_memcpy(t.at[row] + column * static_cast<int>(sizeof(T)), &x, sizeof(T));
}
static void enter() { __builtin_memset(tile, 0xa5, sizeof tile); }  // nothing may count on what was in them
static void leave() {}
static void load_tile(Tile& t, const void* from, int64_t stride, int bytes) {
  for (int r = 0; r < kRows; ++r)
    __builtin_memcpy(t.at[r], static_cast<const uint8_t*>(from) + r * stride, static_cast<size_t>(bytes));
}
static void store_tile(const Tile& t, void* to, int64_t stride) {
  for (int r = 0; r < kRows; ++r) __builtin_memcpy(static_cast<uint8_t*>(to) + r * stride, t.at[r], kSpan);
}
// Numbers below the smallest normal one are 0, before and after.
static float flushed(float x) { return __builtin_fabsf(x) < 1.17549435e-38f ? 0 : x; }
static float bf16_at(const Tile& t, int row, int column) {
  const uint32_t bits = static_cast<uint32_t>(number<uint16_t>(t, row, column)) << 16;
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return flushed(x);
}
static void add_bf16(Tile& c, const Tile& a, const Tile& b) {
  for (int m = 0; m < kRows; ++m)
    for (int n = 0; n < kColumns; ++n) {
      float even = 0, odd = 0;
      for (int k = 0; k < kRows; ++k) {
        even = flushed(even + bf16_at(a, m, 2 * k) * bf16_at(b, k, 2 * n));
        odd = flushed(odd + bf16_at(a, m, 2 * k + 1) * bf16_at(b, k, 2 * n + 1));
      }
      put(c, m, n, flushed(number<float>(c, m, n) + flushed(even + odd)));
    }
}
template <class Left> static void add_bytes(Tile& c, const Tile& a, const Tile& b) {
  for (int m = 0; m < kRows; ++m)
    for (int n = 0; n < kColumns; ++n) {
      auto sum = number<int32_t>(c, m, n);
      for (int k = 0; k < kRows; ++k)
        for (int i = 0; i < 4; ++i) sum += static_cast<int32_t>(number<Left>(a, m, 4 * k + i)) * number<int8_t>(b, k, 4 * n + i);
      put(c, m, n, sum);
    }
}
#define TILE_ZERO(t) __builtin_memset(&tile[t], 0, sizeof(Tile))
// Tiles 6 and 7 hold weights, which are as wide as sums.
#define TILE_LOAD(t, from, stride) load_tile(tile[t], from, stride, (t) >= 6 ? kSpan : kBytes)
#define TILE_STORE(t, to, stride) store_tile(tile[t], to, stride)
#define TILE_BF16(c, a, b) add_bf16(tile[c], tile[a], tile[b])
#define TILE_SIGNED(c, a, b) add_bytes<int8_t>(tile[c], tile[a], tile[b])
#define TILE_UNSIGNED(c, a, b) add_bytes<uint8_t>(tile[c], tile[a], tile[b])

#endif

constexpr int kSecond = kPanel - kColumns;  // the column at which the second tile of a panel begins; 0 when there is none

// The last steps of k that do not fill a tile: with zeros behind them, for what lies there is another panel's.
struct Padded {
  uint8_t at[kRows * kPanel * 4];
};
static const uint8_t* whole_rows(const uint8_t* b, int64_t rows, Padded& padded) {
  if (rows >= kRows) return b;
  const auto bytes = static_cast<size_t>(rows * kPanel * 4);
  __builtin_memset(padded.at, 0, sizeof padded.at);
  __builtin_memcpy(padded.at, b, bytes);
  return padded.at;
}

static void bf16_matrix(const NarrowMatrix& g) {
  constexpr int64_t kStep = 2 * kRows, kRow = kPanel * 4;
  const bool is_tall = g.rows > kRows;
  TILE_ZERO(0);
  TILE_ZERO(1);
  TILE_ZERO(2);
  TILE_ZERO(3);
  Padded padded;
  const uint8_t *a = g.a, *b = g.b;
  for (int64_t k0 = 0; k0 < g.k; k0 += kStep, a += kBytes, b += kRows * kRow) {
    const uint8_t* here = whole_rows(b, (g.k - k0) / 2, padded);
    TILE_LOAD(4, a, g.a_row);
    TILE_LOAD(6, here, kRow);
    TILE_BF16(0, 4, 6);
    if (kSecond > 0) {
      TILE_LOAD(7, here + kSecond * 4, kRow);
      TILE_BF16(1, 4, 7);
    }
    if (is_tall) {
      TILE_LOAD(5, a + kRows * g.a_row, g.a_row);
      TILE_BF16(2, 5, 6);
      if (kSecond > 0) TILE_BF16(3, 5, 7);
    }
  }
  TILE_STORE(0, g.sums, kRow);
  if (kSecond > 0) TILE_STORE(1, g.sums + kSecond, kRow);
  if (!is_tall) return;
  TILE_STORE(2, g.sums + kRows * kPanel, kRow);
  if (kSecond > 0) TILE_STORE(3, g.sums + kRows * kPanel + kSecond, kRow);
}

// b is [k / 4][column][4], with zeros up to whole tiles. Sixteen rows: their two halves take all tiles.
static void int8_rows(const NarrowMatrix& g, int64_t first, int64_t rows) {
  constexpr int64_t kStep = kBytes, kRow = kPanel * 4;
  alignas(64) int32_t high[kRows * kPanel], low[kRows * kPanel];
  float* sums = g.sums + first * kPanel;
  for (int64_t i = 0; i < rows * kPanel; i += kLanes) store(sums + i, set(0));
  const float* scales = g.a_scales + first;
  for (int64_t k0 = 0; k0 < g.k; k0 += kGroup16, scales += g.rows) {
    TILE_ZERO(0);
    TILE_ZERO(1);
    TILE_ZERO(2);
    TILE_ZERO(3);
    for (int64_t i = k0; i < smaller(k0 + kGroup16, g.k); i += kStep) {
      TILE_LOAD(4, g.a + first * g.a_row + i, g.a_row);
      TILE_LOAD(5, g.a_low + first * g.a_row + i, g.a_row);
      TILE_LOAD(6, g.b + i / 4 * kRow, kRow);
      TILE_SIGNED(0, 4, 6);
      TILE_UNSIGNED(2, 5, 6);
      if (kSecond > 0) {
        TILE_LOAD(7, g.b + i / 4 * kRow + kSecond * 4, kRow);
        TILE_SIGNED(1, 4, 7);
        TILE_UNSIGNED(3, 5, 7);
      }
    }
    TILE_STORE(0, high, kRow);
    TILE_STORE(2, low, kRow);
    if (kSecond > 0) {
      TILE_STORE(1, high + kSecond, kRow);
      TILE_STORE(3, low + kSecond, kRow);
    }
    for (int64_t r = 0; r < rows; ++r) {
      const F scale = set(scales[r]);
      for (int64_t j = r * kPanel; j < (r + 1) * kPanel; j += kLanes) {
        I upper, lower;
        __builtin_memcpy(&upper, high + j, sizeof upper);
        __builtin_memcpy(&lower, low + j, sizeof lower);
        store(sums + j, fma(to_float(upper * 256 + lower), scale, load(sums + j)));
      }
    }
  }
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t j = 0; j < kPanel; j += kLanes)
      store(sums + r * kPanel + j, load(sums + r * kPanel + j) * load(reinterpret_cast<const float*>(g.scales) + j));
}

static void int8_matrix(const NarrowMatrix& g) {
  for (int64_t r = 0; r < g.rows; r += kRows) int8_rows(g, r, smaller(kRows, g.rows - r));
}

NarrowMatrices narrow_matrices() { return {enter, leave, bf16_matrix, int8_matrix}; }

}  // namespace pycandle::cpu::PYCANDLE_ISA
