// Kernels with windows over images: im2col, depthwise convolution, pooling.
#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/math.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// The outputs o for which o * stride + offset lies in [0, size): [first, last).
struct Covered {
  int64_t first, last;
};
static Covered inside(int64_t outputs, int64_t stride, int64_t offset, int64_t size) {
  const int64_t first = offset >= 0 ? 0 : divide_up(-offset, stride);
  const int64_t last = offset >= size ? 0 : divide_up(size - offset, stride);
  return {smaller(first, outputs), larger(smaller(first, outputs), smaller(last, outputs))};
}

static void zero(float* p, int64_t n) { __builtin_memset(p, 0, static_cast<size_t>(larger(0, n)) * sizeof(float)); }

static void im2col(const Im2Col& g, int64_t begin, int64_t end, float*) {
  const Window& w = g.window;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t channel = u / (w.kernel[0] * w.kernel[1]), kh = u / w.kernel[1] % w.kernel[0], kw = u % w.kernel[1];
    const float* x = g.x + channel * g.height * g.width;
    float* out = g.out + u * g.out_height * g.out_width;
    const int64_t offset = kw * w.dilation[1] - w.padding[1];
    const Covered cols = inside(g.out_width, w.stride[1], offset, g.width);
    for (int64_t oh = 0; oh < g.out_height; ++oh, out += g.out_width) {
      const int64_t ih = oh * w.stride[0] - w.padding[0] + kh * w.dilation[0];
      if (ih < 0 || ih >= g.height) {
        zero(out, g.out_width);
        continue;
      }
      zero(out, cols.first);
      const float* row = x + ih * g.width + offset;
      if (w.stride[1] == 1) {
        __builtin_memcpy(out + cols.first, row + cols.first, static_cast<size_t>(cols.last - cols.first) * sizeof(float));
      } else {
        for (int64_t ow = cols.first; ow < cols.last; ++ow) out[ow] = row[ow * w.stride[1]];
      }
      zero(out + cols.last, g.out_width - cols.last);
    }
  }
}

static const Kernels* table;

// A plane with its padding, split by the phase of its rows and columns against the stride: [row phase][column phase][rows]
// [columns]. Then every place of the window meets a contiguous run of numbers for the outputs of all rows in one go, whatever
// stride and dilation are; the last columns of each row are computed for nothing.
struct Split {
  int64_t height, width, out_height, out_width;
  Window w;
  int64_t cols, size, outputs, places;  // columns and numbers of a phase; outputs counts those computed for nothing too

  int64_t phases() const { return size * w.stride[0] * w.stride[1]; }
  int64_t sums() const { return round_up(outputs, 4 * kLanes); }
  int64_t scratch() const { return phases() + sums() + places; }  // the numbers, the outputs, where the places lie
};

template <class Args> static Split split_of(const Args& g) {
  Split s{g.height, g.width, g.out_height, g.out_width, g.window, 0, 0, 0, g.window.kernel[0] * g.window.kernel[1]};
  const Window& w = g.window;
  // Windows may reach past the padding, where the number of outputs was rounded up.
  const auto phase_length = [&](int d, int64_t in, int64_t out) {
    return divide_up(larger(in + 2 * w.padding[d], (out - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1), w.stride[d]);
  };
  s.cols = phase_length(1, g.width, g.out_width);
  // A phase ends with what the last vectors of outputs may read past it.
  s.size = round_up(phase_length(0, g.height, g.out_height) * s.cols + 4 * kLanes, kLanes);
  s.outputs = g.out_height * s.cols;
  return s;
}

static void fill_split(const Split& s, float border, float* scratch) {
  for (int64_t i = 0; i < s.phases(); ++i) scratch[i] = border;
  const Window& w = s.w;
  auto* offsets = reinterpret_cast<int32_t*>(scratch + s.phases() + s.sums());
  for (int64_t t = 0; t < s.places; ++t) {
    const int64_t y = t / w.kernel[1] * w.dilation[0], x = t % w.kernel[1] * w.dilation[1];
    offsets[t] = static_cast<int32_t>((y % w.stride[0] * w.stride[1] + x % w.stride[1]) * s.size + y / w.stride[0] * s.cols +
                                      x / w.stride[1]);
  }
}

// The borders hold their number already, and keep it.
static void split_plane(const Split& s, const float* x, float* scratch) {
  const Window& w = s.w;
  for (int64_t y = 0; y < s.height; ++y) {
    const int64_t row = y + w.padding[0];
    float* to = scratch + (row % w.stride[0] * w.stride[1]) * s.size + row / w.stride[0] * s.cols;
    if (w.stride[1] == 1) {
      __builtin_memcpy(to + w.padding[1], x + y * s.width, static_cast<size_t>(s.width) * sizeof(float));
      continue;
    }
    for (int64_t phase = 0; phase < w.stride[1]; ++phase) {
      const int64_t first = ((phase - w.padding[1]) % w.stride[1] + w.stride[1]) % w.stride[1];  // column of x
      float* run = to + phase * s.size + (first + w.padding[1]) / w.stride[1];
      const float* from = x + y * s.width + first;
      const int64_t n = s.width > first ? divide_up(s.width - first, w.stride[1]) : 0;
      if (w.stride[1] == 2) {  // by a known number, which the compiler can vectorise
        for (int64_t i = 0; i < n; ++i) run[i] = from[i * 2];
      } else {
        for (int64_t i = 0; i < n; ++i) run[i] = from[i * w.stride[1]];
      }
    }
  }
}

// out = join of all places, from `none` on; join(so far, number, place).
template <class Join> INLINE void join_places(const Split& s, float* scratch, F none, Join join) {
  float* sums = scratch + s.phases();
  const auto* offsets = reinterpret_cast<const int32_t*>(sums + s.sums());
  for (int64_t i = 0; i < s.outputs; i += 4 * kLanes) {
    F sum[4] = {none, none, none, none};
    for (int64_t t = 0; t < s.places; ++t) {
      const float* from = scratch + offsets[t] + i;
      for (int v = 0; v < 4; ++v) sum[v] = join(sum[v], load(from + v * kLanes), t);
    }
    for (int v = 0; v < 4; ++v) store(sums + i + v * kLanes, sum[v]);
  }
}

static void store_outputs(const Split& s, const float* scratch, float* out) {
  for (int64_t oh = 0; oh < s.out_height; ++oh)
    __builtin_memcpy(out + oh * s.out_width, scratch + s.phases() + oh * s.cols,
                     static_cast<size_t>(s.out_width) * sizeof(float));
}

static void depthwise(const Depthwise& g, int64_t begin, int64_t end, float* scratch) {
  const Split s = split_of(g);
  fill_split(s, 0, scratch);
  const int64_t out_channels = g.channels * g.multiplier;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t batch = u / out_channels, channel = u % out_channels;
    split_plane(s, g.x + (batch * g.channels + channel / g.multiplier) * g.height * g.width, scratch);
    const float* weight = g.weight + channel * s.places;
    join_places(s, scratch, set(g.bias != nullptr ? g.bias[channel] : 0),
                [&](F sum, F x, int64_t place) ALWAYS { return fma(set(weight[place]), x, sum); });
    float* sums = scratch + s.phases();
    if (g.activation != Unary::identity) table->unary[static_cast<int>(g.activation)](sums, sums, s.outputs, g.p, g.q);
    store_outputs(s, scratch, g.out + u * g.out_height * g.out_width);
  }
}

// How many of a window's places lie inside the image, or, counting padding, before its far end.
static int64_t counted(const Pool& g, int d, int64_t output, int64_t size) {
  const Window& w = g.window;
  const int64_t first = output * w.stride[d] - w.padding[d];
  if (g.count_padding) return smaller(first + w.kernel[d], size + w.padding[d]) - first;
  int64_t count = 0;
  for (int64_t i = 0; i < w.kernel[d]; ++i) {
    const int64_t at = first + i * w.dilation[d];
    count += at >= 0 && at < size ? 1 : 0;
  }
  return count;
}

static void pool(const Pool& g, int64_t begin, int64_t end, float* scratch) {
  const Split s = split_of(g);
  fill_split(s, g.average ? 0 : -__builtin_inff(), scratch);
  for (int64_t u = begin; u < end; ++u) {
    split_plane(s, g.x + u * g.height * g.width, scratch);
    if (g.average) {
      join_places(s, scratch, set(0), [](F sum, F x, int64_t) ALWAYS { return sum + x; });
    } else {
      join_places(s, scratch, set(-__builtin_inff()), [](F sum, F x, int64_t) ALWAYS { return max_nan(sum, x); });
    }
    float* out = g.out + u * g.out_height * g.out_width;
    store_outputs(s, scratch, out);
    if (!g.average) continue;
    for (int64_t oh = 0; oh < g.out_height; ++oh) {
      const int64_t rows = counted(g, 0, oh, g.height);
      for (int64_t ow = 0; ow < g.out_width; ++ow)
        out[oh * g.out_width + ow] /= static_cast<float>(g.divisor != 0 ? g.divisor : rows * counted(g, 1, ow, g.width));
    }
  }
}

void fill_windows(Kernels& k) {
  table = &k;
  SET_WITHOUT_SCRATCH(im2col, Im2Col, g.channels * g.window.kernel[0] * g.window.kernel[1])
  SET_WITHOUT_SCRATCH(depthwise, Depthwise, g.batch * g.channels * g.multiplier)
  SET_WITHOUT_SCRATCH(pool, Pool, g.planes)
  k.depthwise_scratch = [](const Depthwise& g) -> int64_t { return split_of(g).scratch(); };
  k.pool_scratch = [](const Pool& g) -> int64_t { return split_of(g).scratch(); };
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
