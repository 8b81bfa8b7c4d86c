// Products of a few rows with a matrix that is read as it lies, once: the memory is the limit, packing would double it.
#include "backends/cpu/kernels/isa/isa.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// The columns of b are contiguous: each is one straight stream, a dot product with every row of a.
template <int rows> static void dots(const ThinProduct& g) {
  constexpr int kUnroll = rows == 1 ? 8 : 2;
  for (int64_t j = 0; j < g.cols; ++j) {
    const float* b = g.b + j * g.b_col;
    F sum[rows][kUnroll];
    for (int r = 0; r < rows; ++r)
      for (int u = 0; u < kUnroll; ++u) sum[r][u] = set(0);
    int64_t i = 0;
    for (; i + kUnroll * kLanes <= g.k; i += kUnroll * kLanes)
#pragma GCC unroll 8
      for (int u = 0; u < kUnroll; ++u) {
        const F x = rows == 1 ? load_streamed(b + i + u * kLanes) : load(b + i + u * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < rows; ++r) sum[r][u] = fma(x, load(g.a + r * g.a_row + i + u * kLanes), sum[r][u]);
      }
    for (; i < g.k; i += kLanes) {
      const int64_t n = smaller(kLanes, g.k - i);
      const F x = load_n(b + i, n);
      for (int r = 0; r < rows; ++r) sum[r][0] = fma(x, load_n(g.a + r * g.a_row + i, n), sum[r][0]);
    }
    for (int r = 0; r < rows; ++r) {
      F total = sum[r][0];
      for (int u = 1; u < kUnroll; ++u) total = total + sum[r][u];
      g.c[r * g.c_row + j] = pycandle::cpu::PYCANDLE_ISA::sum(total);
    }
  }
}

// The rows of b are contiguous: a block of columns is summed while k passes.
template <int rows> static void sums_of_rows(const ThinProduct& g) {
  constexpr int kVectorsHere = rows == 1 ? 8 : 4;
  for (int64_t j = 0; j < g.cols; j += kVectorsHere * kLanes) {
    const int64_t cols = smaller(kVectorsHere * kLanes, g.cols - j);
    F sum[rows][kVectorsHere];
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kVectorsHere; ++v) sum[r][v] = set(0);
    for (int64_t i = 0; i < g.k; ++i) {
      const float* b = g.b + i * g.b_row + j;
      for (int v = 0; v < kVectorsHere; ++v) {
        const int64_t n = smaller(kLanes, cols - v * kLanes);
        if (n <= 0) break;
        const F x = load_n(b + v * kLanes, n);
        for (int r = 0; r < rows; ++r) sum[r][v] = fma(x, set(g.a[r * g.a_row + i]), sum[r][v]);
      }
    }
    for (int r = 0; r < rows; ++r)
      for (int v = 0; v < kVectorsHere; ++v) {
        const int64_t n = smaller(kLanes, cols - v * kLanes);
        if (n > 0) store_n(g.c + r * g.c_row + j + v * kLanes, n, sum[r][v]);
      }
  }
}

template <int rows> static void multiply(const ThinProduct& g) {
  if (g.b_row == 1) {
    dots<rows>(g);
  } else {
    sums_of_rows<rows>(g);
  }
}

void thin_product(const ThinProduct& g) {
  switch (g.rows) {
    case 1: multiply<1>(g); break;
    case 2: multiply<2>(g); break;
    case 3: multiply<3>(g); break;
    default: multiply<4>(g); break;
  }
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
