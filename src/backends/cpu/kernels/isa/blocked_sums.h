// Register tiles of convolutions to blocked images: pixels × vectors of out channels.
#pragma once

#include "backends/cpu/kernels/isa/isa.h"

namespace pycandle::cpu::PYCANDLE_ISA {

#if defined(__AVX512F__)
constexpr int kMostPixels = 14, kMostVectors = 4, kSums = 28;
#else
constexpr int kMostPixels = kTileRows, kMostVectors = 2, kSums = 2 * kTileRows;
#endif

// What a tile sums up: for each block, row and column of the window, `depth` channels that lie side by side.
struct Windows {
  const float *x, *w;
  int64_t pixel;  // floats from one pixel's window to the next one's
  int64_t blocks, rows, columns, depth;
  int64_t x_block, x_row, x_column, w_block, w_row, w_column;
};

// What becomes of the sums. A tile finishes them itself where the epilogue is no more than a sum and bounds.
struct Sums {
  float* out;
  int64_t block;  // floats from one block of channels to the next
  bool on_top, finishes;  // of what is there; with the rest of this
  const float *bias, *residual;  // or null; the residual lies as out does
  float low, high;
};

using WindowsFn = void (*)(const Windows& s, const Sums& to);
// For pixels <= kMostPixels, vectors <= kMostVectors and pixels * vectors <= kSums.
WindowsFn windows_function(int64_t pixels, int64_t vectors, int64_t pixel);

// What a tile does with its sums: finishes them, or leaves them to finish_tile. `bias` is that of its first channel.
Sums sums_of(const BlockedConvolution& g, const float* bias, int64_t block);
void finish_tile(const BlockedConvolution& g, const Sums& sums, int64_t vectors, int64_t pixels);

}  // namespace pycandle::cpu::PYCANDLE_ISA
