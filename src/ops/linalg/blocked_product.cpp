#include "ops/linalg/blocked_product.h"

namespace pycandle::blocked {

namespace {

// tile[i, j] += sum over k of left[k, i] * right[k, j], where V holds kLanes columns. Unrolled, the sums are registers.
template <class V, int64_t kLanes, class T>
[[gnu::always_inline]] inline void add_tile(int64_t depth, const T* left, const T* right, T* tile, int64_t stride) {
  constexpr int64_t kVectors = kTileColumns / kLanes;
  V sum[kTileRows][kVectors] = {};
  for (int64_t k = 0; k < depth; ++k) {
    const V* columns = reinterpret_cast<const V*>(right + k * kTileColumns);
#pragma GCC unroll 4
    for (int64_t i = 0; i < kTileRows; ++i) {
      const T row = left[k * kTileRows + i];
#pragma GCC unroll 8
      for (int64_t j = 0; j < kVectors; ++j) {
        if constexpr (kLanes == 1)
          sum[i][j] += product_of<T>(columns[j], row);
        else
          sum[i][j] += columns[j] * row;
      }
    }
  }
#pragma GCC unroll 4
  for (int64_t i = 0; i < kTileRows; ++i) {
    V* out = reinterpret_cast<V*>(tile + i * stride);
#pragma GCC unroll 8
    for (int64_t j = 0; j < kVectors; ++j) out[j] += sum[i][j];
  }
}

template <class V, int64_t kLanes, class T>
[[gnu::always_inline]] inline void add_tiles(int64_t rows, int64_t columns, int64_t depth, const T* left, const T* right,
                                             T* block) {
  for (int64_t j = 0; j < columns; j += kTileColumns) {
    for (int64_t i = 0; i < rows; i += kTileRows)
      add_tile<V, kLanes>(depth, left + i * depth, right + j * depth, block + i * columns + j, columns);
  }
}

using Doubles = double __attribute__((vector_size(32)));
using Integers = uint64_t __attribute__((vector_size(32)));  // unsigned: they wrap

#if defined(__x86_64__)
// Wider vectors, the same operations in the same order: the result has the same bits.
[[gnu::target("avx2")]] void add_tiles_avx2(int64_t rows, int64_t columns, int64_t depth, const double* left, const double* right,
                                            double* block) {
  add_tiles<Doubles, 4>(rows, columns, depth, left, right, block);
}
#endif

}  // namespace

void add_block(int64_t rows, int64_t columns, int64_t depth, const double* left, const double* right, double* block) {
#if defined(__x86_64__)
  static const bool has_avx2 = __builtin_cpu_supports("avx2");
  if (has_avx2) return add_tiles_avx2(rows, columns, depth, left, right, block);
#endif
  add_tiles<Doubles, 4>(rows, columns, depth, left, right, block);
}
void add_block(int64_t rows, int64_t columns, int64_t depth, const int64_t* left, const int64_t* right, int64_t* block) {
  add_tiles<Integers, 4>(rows, columns, depth, reinterpret_cast<const uint64_t*>(left), reinterpret_cast<const uint64_t*>(right),
                         reinterpret_cast<uint64_t*>(block));
}
void add_block(int64_t rows, int64_t columns, int64_t depth, const Complex* left, const Complex* right, Complex* block) {
  add_tiles<Complex, 1>(rows, columns, depth, left, right, block);
}

}  // namespace pycandle::blocked
