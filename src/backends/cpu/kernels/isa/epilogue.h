// What happens to a tile of a product before it is stored (Epilogue in kernels.h).
#pragma once

#include "backends/cpu/kernels/isa/isa.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// Where a piece of c lies, and what belongs to it. Its sums are in `from`, which may be c.
struct Piece {
  float* c;
  int64_t c_row, rows, cols;
  const float* from;
  int64_t from_row;
  const float *bias, *row_bias, *multiplier, *residual;
};

// One product of a batch.
struct Product {
  const float *a, *b;
  float* c;
  const float *multiplier, *residual;
};

INLINE Piece piece_of(const Gemm& g, const Product& p, int64_t row, int64_t col, int64_t rows, int64_t cols) {
  const Epilogue& e = g.epilogue;
  float* c = p.c + row * g.c_row + col;
  return {c,
          g.c_row,
          rows,
          cols,
          c,
          g.c_row,
          e.bias != nullptr ? e.bias + col : nullptr,
          e.row_bias != nullptr ? e.row_bias + row : nullptr,
          p.multiplier != nullptr ? p.multiplier + row * e.multiplier_row + col : nullptr,
          p.residual != nullptr ? p.residual + row * e.residual_row + col : nullptr};
}

void finish(const Epilogue& e, const Piece& t);

// At most adds a bias and a residual, which tiles can do themselves.
INLINE bool only_adds(const Epilogue& e) {
  return e.scale == 1 && e.row_bias == nullptr && e.activation == Unary::identity && e.multiplier == nullptr;
}
INLINE bool is_finished(const Epilogue& e, const Piece& t) { return only_adds(e) && t.bias == nullptr && t.residual == nullptr; }

}  // namespace pycandle::cpu::PYCANDLE_ISA
