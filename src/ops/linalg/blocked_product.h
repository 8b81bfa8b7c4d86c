// The one blocked loop of dot_general and convolution: result[b, m, n] = sum over k of left[b, m, k] * right[b, k, n].
// Operands are given as functions that fill a block, so that conversion, strides and a convolution's windows are theirs.
// Every element is summed by one task in a fixed order: the number of threads does not change the result.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "base/threads.h"
#include "ops/core/evaluate.h"

namespace pycandle {

struct ProductSizes {
  int64_t batch, rows, columns, depth;
};

namespace blocked {

inline constexpr int64_t kTileRows = 4, kTileColumns = 8;                            // accumulators that fit the registers
inline constexpr int64_t kBlockRows = 96, kBlockColumns = 256, kBlockDepth = 256;    // panels that fit the cache

// block += left panels * right panels. Multiplication and addition round separately on every machine.
void add_block(int64_t rows, int64_t columns, int64_t depth, const double* left, const double* right, double* block);
void add_block(int64_t rows, int64_t columns, int64_t depth, const int64_t* left, const int64_t* right, int64_t* block);
void add_block(int64_t rows, int64_t columns, int64_t depth, const Complex* left, const Complex* right, Complex* block);

// Memory that whole vectors can be loaded from.
template <class T> struct Panel {
  struct alignas(64) Line {
    T items[64 / sizeof(T)];
  };
  explicit Panel(int64_t count) : lines(static_cast<size_t>(count) * sizeof(T) / sizeof(Line) + 1) {}
  T* data() { return lines.data()->items; }
  std::vector<Line> lines;
};

inline int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

}  // namespace blocked

// fill_left(b, m, rows, k, depth, out) writes out[row * depth + i]; fill_right(b, k, depth, n, columns, out) writes
// out[i * columns + column]; store(b, m, n, columns, row) takes a finished piece of a row.
template <class T, class FillLeft, class FillRight, class Store>
void blocked_product(const ProductSizes& sizes, const FillLeft& fill_left, const FillRight& fill_right, const Store& store) {
  using namespace blocked;
  const int64_t row_blocks = (sizes.rows + kBlockRows - 1) / kBlockRows,
                column_blocks = (sizes.columns + kBlockColumns - 1) / kBlockColumns;
  parallel_for(sizes.batch * row_blocks * column_blocks, 1, [&](int64_t begin, int64_t end) {
    const int64_t height = std::min(kBlockRows, rounded_up(sizes.rows, kTileRows)),
                  width = std::min(kBlockColumns, rounded_up(sizes.columns, kTileColumns));
    const int64_t layers = std::min(kBlockDepth, std::max<int64_t>(1, sizes.depth));
    Panel<T> loaded(std::max(height, width) * layers), left(height * layers), right(width * layers), block(height * width);
    for (int64_t task = begin; task < end; ++task) {
      const int64_t b = task / (row_blocks * column_blocks), m = task / column_blocks % row_blocks * kBlockRows,
                    n = task % column_blocks * kBlockColumns;
      const int64_t rows = std::min(kBlockRows, sizes.rows - m), columns = std::min(kBlockColumns, sizes.columns - n);
      const int64_t tiled_rows = rounded_up(rows, kTileRows), tiled_columns = rounded_up(columns, kTileColumns);
      std::fill_n(block.data(), tiled_rows * tiled_columns, T{});
      for (int64_t k = 0; k < sizes.depth; k += kBlockDepth) {
        const int64_t depth = std::min(kBlockDepth, sizes.depth - k);
        fill_left(b, m, rows, k, depth, loaded.data());
        for (int64_t i = 0; i < tiled_rows; ++i) {  // panels of kTileRows rows: [panel][k][row]
          T* to = left.data() + i / kTileRows * kTileRows * depth + i % kTileRows;
          for (int64_t d = 0; d < depth; ++d) to[d * kTileRows] = i < rows ? loaded.data()[i * depth + d] : T{};
        }
        fill_right(b, k, depth, n, columns, loaded.data());
        for (int64_t j = 0; j < tiled_columns; j += kTileColumns) {  // panels of kTileColumns columns: [panel][k][column]
          const int64_t real = std::min(kTileColumns, columns - j);
          for (int64_t d = 0; d < depth; ++d) {
            T* to = right.data() + j * depth + d * kTileColumns;
            std::copy_n(loaded.data() + d * columns + j, real, to);
            std::fill_n(to + real, kTileColumns - real, T{});
          }
        }
        add_block(tiled_rows, tiled_columns, depth, left.data(), right.data(), block.data());
      }
      for (int64_t i = 0; i < rows; ++i) store(b, m + i, n, columns, block.data() + i * tiled_columns);
    }
  });
}

}  // namespace pycandle
