// What the kernel sources of one instruction set see of each other.
#pragma once

#include "backends/cpu/kernels/isa/vector.h"
#include "backends/cpu/kernels/kernels.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// Each source fills in its part of the table.
void fill_elementwise(Kernels& k);
void fill_epilogue(Kernels& k);
void fill_gemm(Kernels& k);
void fill_narrow(Kernels& k);
void fill_rows(Kernels& k);
void fill_attention(Kernels& k);
void fill_cached_attention(Kernels& k);
void fill_moving(Kernels& k);
void fill_windows(Kernels& k);
void fill_blocked_convolution(Kernels& k);
void fill_blocked_windows(Kernels& k);
void fill_winograd(Kernels& k);
void fill_recurrent(Kernels& k);
void fill_fourier(Kernels& k);
void fill_machine(Kernels& k);

// A kernel's entries in the table `k`, for one that needs no scratch; units is an expression of its arguments g.
#define SET_WITHOUT_SCRATCH(name, Args, units)                     \
  k.name = name;                                                   \
  k.name##_units = [](const Args& g) -> int64_t { return units; }; \
  k.name##_scratch = [](const Args&) -> int64_t { return 0; };

// Register tiles: up to kTileRows rows of a, kVectors vectors of columns of b.
#if defined(__AVX512F__)
constexpr int kTileRows = 14;
#else
constexpr int kTileRows = kLanes == 8 ? 6 : 4;
#endif
constexpr int kVectors = 2;
constexpr int kPanel = kVectors * kLanes;

// c[rows, vectors * kLanes] = bias + sum over k of a[k * a_step + row] * b[k * vectors * kLanes + column] + added
// While it computes, it asks for the memory from ahead.next on, ahead.step floats for each k.
struct Ahead {
  const float* next = nullptr;
  int64_t step = 0;
};
struct Addends {
  const float* bias = nullptr;   // a row, or null
  const float* added = nullptr;  // rows added_row apart, or null; may be c
  int64_t added_row = 0;
};
using TileFn = void (*)(int64_t k, const float* a, int64_t a_step, const float* b, float* c, int64_t c_row,
                        const Addends& addends, Ahead ahead);
// For 1 <= rows <= kTileRows and 1 <= vectors <= kVectors. With as_it_lies, a is read as a[k + a_step * row], and vectors is
// kVectors.
TileFn tile_function(int64_t rows, int64_t vectors, bool as_it_lies = false);

// c[rows, cols] = a[rows, k] · b[k, cols] with b as it lies: b_row or b_col is 1, rows at most kThinRows.
constexpr int64_t kThinRows = 4;
struct ThinProduct {
  int64_t rows, cols, k;
  const float* a;
  int64_t a_row;
  const float* b;
  int64_t b_row, b_col;
  float* c;
  int64_t c_row;
};
void thin_product(const ThinProduct& g);

// a[rows, k] as [k][rows]; writes up to kLanes floats past the end.
void pack_tile(const float* a, int64_t a_row, int64_t a_col, int64_t rows, int64_t k, float* out);

// Rows [k0, k0 + k) and columns [col, col + cols) of what im2col makes of the image x, as [k][width], the missing columns 0;
// width is at most kPanel.
void pack_image_panel(const Im2Col& image, const float* x, int64_t k0, int64_t k, int64_t col, int64_t cols, int64_t width,
                      float* out);

// out[c * out_step + r] = x[r * x_row + c] * scale for rows <= kLanes; may write up to out[(cols - 1) * out_step + kLanes - 1].
void transpose_rows(const float* x, int64_t x_row, int64_t rows, int64_t cols, float scale, float* out, int64_t out_step);

// The kth of `parts` nearly equal parts of n.
INLINE int64_t part_begin(int64_t n, int64_t parts, int64_t k) { return n / parts * k + smaller(k, n % parts); }

}  // namespace pycandle::cpu::PYCANDLE_ISA
