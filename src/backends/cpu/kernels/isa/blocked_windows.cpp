// Depthwise convolution and pooling of blocked images: every lane is a channel of its own.
#include "backends/cpu/kernels/isa/epilogue.h"
#include "backends/cpu/kernels/isa/isa.h"

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

// kPixels sums of one row: x at the first one's window, w at the weights of its first row.
struct Row {
  const float *x, *w;
  int64_t rows, x_row, columns, stride, dilation;
};
using RowFn = void (*)(const Row& s, float* out);

// kColumns, kStride: s.columns and s.stride, or 0 where they are not known (and the dilation may be another than 1).
template <int kPixels, int kWidth, int kStride> static void sum_row(const Row& s, float* out) {
  F sum[kPixels];
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) sum[p] = set(0);
  const int64_t stride = (kStride != 0 ? kStride : s.stride) * kLanes, columns = kWidth != 0 ? kWidth : s.columns;
  const int64_t dilation = (kWidth != 0 ? 1 : s.dilation) * kLanes;
  const float *x = s.x, *w = s.w;
  for (int64_t h = 0; h < s.rows; ++h, x += s.x_row, w += columns * kLanes) {
#pragma GCC unroll 7
    for (int64_t c = 0; c < columns; ++c) {
      const F weight = load(w + c * kLanes);
#pragma GCC unroll 8
      for (int p = 0; p < kPixels; ++p) sum[p] = fma(load(x + p * stride + c * dilation), weight, sum[p]);
    }
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

static void blocked_depthwise(const BlockedDepthwise& args, int64_t begin, int64_t end, float* scratch) {
  const BlockedConvolution& g = args.shape;
  const Window& w = g.window;
  const int64_t blocks = divide_up(g.channels, kLanes), tiles = divide_up(g.out_width, kColumns), x_row = g.width * kLanes;
  const Epilogue& e = g.epilogue;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t plane = u / g.out_height, oh = u % g.out_height, block = plane % blocks;
    const float* image = g.x + plane * g.height * x_row;
    float* out = g.out + u * g.out_width * kLanes;
    const int64_t y = oh * w.stride[0] - w.padding[0];
    const Inside rows = inside(y, w.dilation[0], w.kernel[0], g.height);
    const float* weights = g.packed + (block * w.kernel[0] + rows.begin) * w.kernel[1] * kLanes;
    for (int64_t t = 0; t < tiles; ++t) {
      const int64_t column = part_begin(g.out_width, tiles, t), pixels = part_begin(g.out_width, tiles, t + 1) - column;
      const int64_t first = column * w.stride[1] - w.padding[1], width = covered(w, pixels);
      Row s{image + (y + rows.begin * w.dilation[0]) * x_row + first * kLanes,
            weights,
            rows.end - rows.begin,
            w.dilation[0] * x_row,
            w.kernel[1],
            w.stride[1],
            w.dilation[1]};
      if (first < 0 || first + width > g.width) {  // what it covers, with the padding
        const int64_t left = smaller(width, larger(0, -first)), stop = larger(left, smaller(width, g.width - first));
        for (int64_t r = 0; r < s.rows; ++r) {
          float* to = scratch + r * width * kLanes;
          for (int64_t i = 0; i < left; ++i) store(to + i * kLanes, set(0));
          for (int64_t i = left; i < stop; ++i) store(to + i * kLanes, load(s.x + r * s.x_row + i * kLanes));
          for (int64_t i = stop; i < width; ++i) store(to + i * kLanes, set(0));
        }
        s.x = scratch;
        s.x_row = width * kLanes;
      }
      row_function(w, pixels)(s, out + column * kLanes);
    }
    const auto beside = [&](const float* x) { return x != nullptr ? x + u * g.out_width * kLanes : nullptr; };
    const Piece piece{out,
                      kLanes,
                      g.out_width,
                      kLanes,
                      out,
                      kLanes,
                      e.bias != nullptr ? e.bias + block * kLanes : nullptr,
                      nullptr,
                      beside(e.multiplier),
                      beside(e.residual)};
    if (!is_finished(e, piece)) finish(e, piece);
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
