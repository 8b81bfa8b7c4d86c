// Depthwise convolution and pooling of blocked images: every lane is a channel of its own.
#include "backends/cpu/kernels/isa/blocked_sums.h"
#include "backends/cpu/kernels/isa/epilogue.h"

namespace pycandle::cpu::PYCANDLE_ISA {

#if defined(__AVX512F__)
constexpr int kColumns = 8;  // of a tile: with their windows and the weights of a row they fill the registers
#else
constexpr int kColumns = 4;
#endif

// The places i of a window, from `first` on, that lie inside [0, size).
struct Inside {
  int64_t begin, end;
};
static Inside inside(int64_t first, int64_t dilation, int64_t kernel, int64_t size) {
  const int64_t begin = first < 0 ? smaller(kernel, divide_up(-first, dilation)) : 0;
  return {begin, larger(begin, first < size ? smaller(kernel, divide_up(size - first, dilation)) : 0)};
}

// ---- depthwise

// What becomes of the sums of a row, where that is no more than a sum and bounds.
struct End {
  bool finishes;
  const float *bias, *residual;  // or null; the residual of the first pixel
  float low, high;
};

// kPixels sums of one row: x at the first one's window, w at the weights of its first row. Between two rows of the window,
// w_row floats of weights.
struct Row {
  const float *x, *w;
  int64_t rows, x_row, w_row, columns, stride, dilation;
};
using RowFn = void (*)(const Row& s, const End& end, float* out);

// kColumns, kStride: s.columns and s.stride, or 0 where they are not known (and the dilation may be another than 1).
template <int kPixels, int kWidth, int kStride> static void sum_row(const Row& s, const End& end, float* out) {
  F sum[kPixels];
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) sum[p] = set(0);
  const int64_t stride = (kStride != 0 ? kStride : s.stride) * kLanes, columns = kWidth != 0 ? kWidth : s.columns;
  const int64_t dilation = (kWidth != 0 ? 1 : s.dilation) * kLanes;
  const float *x = s.x, *w = s.w;
  for (int64_t h = 0; h < s.rows; ++h, x += s.x_row, w += s.w_row) {
#pragma GCC unroll 7
    for (int64_t c = 0; c < columns; ++c) {
      const F weight = load(w + c * kLanes);
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) sum[p] = fma(load(x + p * stride + c * dilation), weight, sum[p]);
    }
  }
  if (end.finishes) {
    const F bias = end.bias != nullptr ? load(end.bias) : set(0), low = set(end.low), high = set(end.high);
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) sum[p] = sum[p] + bias;
    if (end.residual != nullptr) {
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) sum[p] = sum[p] + load(end.residual + p * kLanes);
    }
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p) sum[p] = min2(high, max2(low, sum[p]));  // NaN stays
  }
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) store(out + p * kLanes, sum[p]);
}

template <int kWidth, int kStride> static RowFn row_function(int64_t pixels) {
  static constexpr RowFn functions[] = {
      sum_row<1, kWidth, kStride>, sum_row<2, kWidth, kStride>, sum_row<3, kWidth, kStride>, sum_row<4, kWidth, kStride>,
#if defined(__AVX512F__)
      sum_row<5, kWidth, kStride>, sum_row<6, kWidth, kStride>, sum_row<7, kWidth, kStride>, sum_row<8, kWidth, kStride>,
#endif
  };
  return functions[pixels - 1];
}

static RowFn row_function(const Window& w, int64_t pixels) {
  const int64_t stride = w.dilation[1] == 1 && w.stride[1] <= 2 ? w.stride[1] : 0, width = w.kernel[1];
#define WIDTH(n)                                                    \
  if (width == n && stride == 1) return row_function<n, 1>(pixels); \
  if (width == n && stride == 2) return row_function<n, 2>(pixels);
  WIDTH(3)
  WIDTH(5)
  WIDTH(7)
#undef WIDTH
  return row_function<0, 0>(pixels);
}

// Columns of the image that the windows of a tile cover.
static int64_t covered(const Window& w, int64_t pixels) {
  return (pixels - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1;
}

// One row of outputs of one block.
struct DepthwiseRow {
  const BlockedConvolution& g;
  Row row;  // of a pixel whose window begins at the image's first column
  End end;
  float *out, *scratch;
};

static void sum_from(const DepthwiseRow& d, int64_t column, const Row& row, RowFn sum) {
  End end = d.end;
  if (end.residual != nullptr) end.residual += column * kLanes;
  sum(row, end, d.out + column * kLanes);
}

// Pixels whose windows lie inside the image, in tiles.
static void sum_inside(const DepthwiseRow& d, int64_t begin, int64_t end) {
  const Window& w = d.g.window;
  const int64_t tiles = divide_up(end - begin, kColumns);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t column = begin + part_begin(end - begin, tiles, t),
                  pixels = begin + part_begin(end - begin, tiles, t + 1) - column;
    Row row = d.row;
    row.x += (column * w.stride[1] - w.padding[1]) * kLanes;
    sum_from(d, column, row, row_function(w, pixels));
  }
}

// A pixel at the edge: the columns of its window that lie inside.
static void sum_at_edge(const DepthwiseRow& d, int64_t column) {
  const Window& w = d.g.window;
  const int64_t first = column * w.stride[1] - w.padding[1];
  const Inside columns = inside(first, w.dilation[1], w.kernel[1], d.g.width);
  Row row = d.row;
  row.x += (first + columns.begin * w.dilation[1]) * kLanes;
  row.w += columns.begin * kLanes;
  row.columns = columns.end - columns.begin;
  sum_from(d, column, row, sum_row<1, 0, 0>);
}

// A tile that reaches past the edge, from a copy of what its windows cover.
static void sum_copied(const DepthwiseRow& d, int64_t column, int64_t pixels) {
  const Window& w = d.g.window;
  const int64_t first = column * w.stride[1] - w.padding[1], width = covered(w, pixels);
  const int64_t left = smaller(width, larger(0, -first)), stop = larger(left, smaller(width, d.g.width - first));
  Row row = d.row;
  for (int64_t r = 0; r < row.rows; ++r) {
    const float* from = row.x + r * row.x_row + first * kLanes;
    float* to = d.scratch + r * width * kLanes;
    for (int64_t i = 0; i < left; ++i) store(to + i * kLanes, set(0));
    for (int64_t i = left; i < stop; ++i) store(to + i * kLanes, load(from + i * kLanes));
    for (int64_t i = stop; i < width; ++i) store(to + i * kLanes, set(0));
  }
  row.x = d.scratch;
  row.x_row = width * kLanes;
  sum_from(d, column, row, row_function(w, pixels));
}

static void sum_whole_row(const DepthwiseRow& d) {
  const BlockedConvolution& g = d.g;
  const Window& w = g.window;
  const int64_t reach = (w.kernel[1] - 1) * w.dilation[1] + 1, room = g.width + w.padding[1] - reach;
  const int64_t begin = smaller(g.out_width, divide_up(w.padding[1], w.stride[1]));
  const int64_t end = room < 0 ? begin : larger(begin, smaller(g.out_width, room / w.stride[1] + 1));
  if (w.kernel[1] <= 3 && g.out_width > kColumns) {  // few of the pixels lie at the edges
    for (int64_t i = 0; i < begin; ++i) sum_at_edge(d, i);
    sum_inside(d, begin, end);
    for (int64_t i = end; i < g.out_width; ++i) sum_at_edge(d, i);
    return;
  }
  const int64_t tiles = divide_up(g.out_width, kColumns);
  for (int64_t t = 0; t < tiles; ++t) {
    const int64_t column = part_begin(g.out_width, tiles, t), next = part_begin(g.out_width, tiles, t + 1);
    if (column >= begin && next <= end)
      sum_inside(d, column, next);
    else
      sum_copied(d, column, next - column);
  }
}

static void blocked_depthwise(const BlockedDepthwise& args, int64_t begin, int64_t end, float* scratch) {
  const BlockedConvolution& g = args.shape;
  const Window& w = g.window;
  const int64_t blocks = divide_up(g.channels, kLanes), x_row = g.width * kLanes, out_row = g.out_width * kLanes;
  const Epilogue& e = g.epilogue;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t plane = u / g.out_height, oh = u % g.out_height, block = plane % blocks;
    const int64_t y = oh * w.stride[0] - w.padding[0];
    const Inside rows = inside(y, w.dilation[0], w.kernel[0], g.height);
    const float* bias = e.bias != nullptr ? e.bias + block * kLanes : nullptr;
    const auto beside = [&](const float* x) { return x != nullptr ? x + u * out_row : nullptr; };
    const Sums sums = sums_of(g, bias, 0);
    const DepthwiseRow row{g,
                           {g.x + plane * g.height * x_row + (y + rows.begin * w.dilation[0]) * x_row,
                            g.packed + (block * w.kernel[0] + rows.begin) * w.kernel[1] * kLanes, rows.end - rows.begin,
                            w.dilation[0] * x_row, w.kernel[1] * kLanes, w.kernel[1], w.stride[1], w.dilation[1]},
                           {sums.finishes, bias, beside(e.residual), sums.low, sums.high},
                           g.out + u * out_row,
                           scratch};
    sum_whole_row(row);
    if (sums.finishes) continue;
    finish(e, {row.out, kLanes, g.out_width, kLanes, row.out, kLanes, bias, nullptr, beside(e.multiplier), beside(e.residual)});
  }
}

// ---- pooling

// How many places of a window count for an average: those inside the image, or, counting padding, before its far end.
static int64_t counted(const Pool& g, int d, int64_t first, const Inside& in, int64_t size) {
  if (g.count_padding) return smaller(first + g.window.kernel[d], size + g.window.padding[d]) - first;
  return in.end - in.begin;
}

static void blocked_pool(const BlockedPool& args, int64_t begin, int64_t end, float*) {
  const Pool& g = args.pool;
  const Window& w = g.window;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t y = u % g.out_height * w.stride[0] - w.padding[0];
    const Inside rows = inside(y, w.dilation[0], w.kernel[0], g.height);
    const float* image = g.x + u / g.out_height * g.height * g.width * kLanes;
    float* out = g.out + u * g.out_width * kLanes;
    for (int64_t ow = 0; ow < g.out_width; ++ow) {
      const int64_t x = ow * w.stride[1] - w.padding[1];
      const Inside columns = inside(x, w.dilation[1], w.kernel[1], g.width);
      F all = set(g.average ? 0 : -__builtin_inff());
      for (int64_t r = rows.begin; r < rows.end; ++r) {
        const float* row = image + ((y + r * w.dilation[0]) * g.width + x) * kLanes;
        for (int64_t c = columns.begin; c < columns.end; ++c) {
          const F here = load(row + c * w.dilation[1] * kLanes);
          all = g.average ? all + here : max_nan(all, here);
        }
      }
      if (g.average) {
        const int64_t count = g.divisor != 0 ? g.divisor : counted(g, 0, y, rows, g.height) * counted(g, 1, x, columns, g.width);
        all = all / set(static_cast<float>(count));
      }
      store(out + ow * kLanes, all);
    }
  }
}

void fill_blocked_windows(Kernels& k) {
  SET_WITHOUT_SCRATCH(blocked_depthwise, BlockedDepthwise,
                      g.shape.batch * divide_up(g.shape.channels, kLanes) * g.shape.out_height)
  k.blocked_depthwise_scratch = [](const BlockedDepthwise& g) -> int64_t {
    return g.shape.window.kernel[0] * covered(g.shape.window, smaller(kColumns, g.shape.out_width)) * kLanes;
  };
  SET_WITHOUT_SCRATCH(blocked_pool, BlockedPool, g.pool.planes * g.pool.out_height)
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
