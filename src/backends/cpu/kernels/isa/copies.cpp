// Kernels that move numbers: copies and transposes, rows of a table, rotary positions.
#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/transpose.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// ---- copies. plan_copy has left the dim of the shortest steps of out last and, in a transpose, that of x before it.

constexpr int64_t kCopyRows = 16, kCopyCols = 4096;  // of a unit

struct Plane {
  int64_t rows, cols, x_row, x_col, out_row, out_col;
};
static Plane plane_of(const Copy& g) {
  const int r = g.rank;
  if (r == 0) return {1, 1, 0, 1, 0, 1};
  if (r == 1) return {1, g.dims[0], 0, g.x_strides[0], 0, g.out_strides[0]};
  return {g.dims[r - 2], g.dims[r - 1], g.x_strides[r - 2], g.x_strides[r - 1], g.out_strides[r - 2], g.out_strides[r - 1]};
}

static int64_t copy_units(const Copy& g) {
  const Plane p = plane_of(g);
  int64_t units = divide_up(p.rows, kCopyRows) * divide_up(p.cols, kCopyCols);
  for (int i = 0; i < g.rank - 2; ++i) units *= g.dims[i];
  return units;
}

template <int size> struct Element {
  char bytes[size];
};

template <int size> static void copy_plane(const Plane& p, const char* from, char* to) {
  using E = Element<size>;
  const auto* x = reinterpret_cast<const E*>(from);
  auto* out = reinterpret_cast<E*>(to);
  if (p.x_col == 1 && p.out_col == 1) {
    for (int64_t r = 0; r < p.rows; ++r)
      __builtin_memcpy(out + r * p.out_row, x + r * p.x_row, static_cast<size_t>(p.cols) * size);
    return;
  }
  int64_t first_row = 0;
  if (size == 4 && p.x_row == 1 && p.out_col == 1) {
    const auto* xf = reinterpret_cast<const float*>(from);
    auto* outf = reinterpret_cast<float*>(to);
    for (; first_row + kLanes <= p.rows; first_row += kLanes)
      for (int64_t c = 0; c < p.cols; c += kLanes) {
        const int64_t here = smaller(kLanes, p.cols - c);
        F square[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) square[i] = i < here ? load(xf + first_row + (c + i) * p.x_col) : set(0);
        transpose_square(square);
        for (int64_t i = 0; i < kLanes; ++i) store_n(outf + (first_row + i) * p.out_row + c, here, square[i]);
      }
  }
  for (int64_t r = first_row; r < p.rows; ++r)
    for (int64_t c = 0; c < p.cols; ++c) out[r * p.out_row + c * p.out_col] = x[r * p.x_row + c * p.x_col];
}

static void copy(const Copy& g, int64_t begin, int64_t end, float*) {
  const Plane whole = plane_of(g);
  const int64_t down = divide_up(whole.rows, kCopyRows), across = divide_up(whole.cols, kCopyCols);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t col = u % across * kCopyCols, row = u / across % down * kCopyRows;
    int64_t x_at = row * whole.x_row + col * whole.x_col, out_at = row * whole.out_row + col * whole.out_col;
    int64_t outer = u / across / down;
    for (int i = g.rank - 3; i >= 0; --i) {
      x_at += outer % g.dims[i] * g.x_strides[i];
      out_at += outer % g.dims[i] * g.out_strides[i];
      outer /= g.dims[i];
    }
    Plane p = whole;
    p.rows = smaller(kCopyRows, whole.rows - row);
    p.cols = smaller(kCopyCols, whole.cols - col);
    const char* x = static_cast<const char*>(g.x) + x_at * g.element;
    char* out = static_cast<char*>(g.out) + out_at * g.element;
    switch (g.element) {
      case 1: copy_plane<1>(p, x, out); break;
      case 2: copy_plane<2>(p, x, out); break;
      case 4: copy_plane<4>(p, x, out); break;
      case 8: copy_plane<8>(p, x, out); break;
      default: copy_plane<16>(p, x, out); break;
    }
  }
}

// ---- rows of a table

static void gather_rows(const GatherRows& g, int64_t begin, int64_t end, float*) {
  for (int64_t i = begin; i < end; ++i) {
    int64_t at = g.index != nullptr ? g.index[i] : g.index32[i];
    if (at < 0) at += g.table_rows;
    char* out = static_cast<char*>(g.out) + i * g.out_row_bytes;
    if (at < 0 || at >= g.table_rows) {
      __builtin_memset(out, 0, static_cast<size_t>(g.row_bytes));
      if (g.bad != nullptr) __atomic_store_n(g.bad, i + 1, __ATOMIC_RELAXED);
      continue;
    }
    __builtin_memcpy(out, static_cast<const char*>(g.table) + at * g.table_row_bytes, static_cast<size_t>(g.row_bytes));
  }
}

// ---- rotary positions

// Products and sums are rounded one by one, as the definition says.
static void rotate_halves(const Rotary& g, const float* x, const float* cos, const float* sin, float* out) {
  const int64_t half = g.rotated / 2, other = g.paired ? 0 : half;
  for (int64_t i = 0; i < half; i += kLanes) {
    const int64_t n = smaller(kLanes, half - i);
    const F a = load_n(x + i, n), b = load_n(x + half + i, n);
    const F first = a * load_n(cos + i, n) - b * load_n(sin + i, n);
    const F second = b * load_n(cos + other + i, n) + a * load_n(sin + other + i, n);
    store_n(out + i, n, first);
    store_n(out + half + i, n, second);
  }
}

static void rotate_neighbours(const Rotary& g, const float* x, const float* cos, const float* sin, float* out) {
  for (int64_t i = 0; i + 1 < g.rotated; i += 2) {
    const int64_t first = g.paired ? i / 2 : i, second = g.paired ? i / 2 : i + 1;
    const float a = x[i], b = x[i + 1];
    out[i] = a * cos[first] - b * sin[first];
    out[i + 1] = b * cos[second] + a * sin[second];
  }
}

static void rotary(const Rotary& g, int64_t begin, int64_t end, float*) {
  for (int64_t u = begin; u < end; ++u) {
    const int64_t batch = u / g.length, row = u % g.length;
    const int64_t angle = batch * g.angle_batch + row * g.angle_row;
    for (int64_t h = 0; h < g.heads; ++h) {
      const float* x = g.x + batch * g.x_batch + row * g.x_row + h * g.x_head;
      float* out = g.out + batch * g.out_batch + row * g.out_row + h * g.out_head;
      if (g.interleaved) {
        rotate_neighbours(g, x, g.cos + angle, g.sin + angle, out);
      } else {
        rotate_halves(g, x, g.cos + angle, g.sin + angle, out);
      }
      if (out != x)
        for (int64_t i = g.rotated; i < g.size; ++i) out[i] = x[i];
    }
  }
}

void fill_moving(Kernels& k) {
  SET_WITHOUT_SCRATCH(copy, Copy, copy_units(g))
  SET_WITHOUT_SCRATCH(gather_rows, GatherRows, g.count)
  SET_WITHOUT_SCRATCH(rotary, Rotary, g.batch * g.length)
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
