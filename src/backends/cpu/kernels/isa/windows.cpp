// Kernels with windows over images: im2col, depthwise convolution, pooling.
#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/math.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// The outputs o for which o * stride + offset lies in [0, size): [first, last).
struct Inside {
  int64_t first, last;
};
static Inside inside(int64_t outputs, int64_t stride, int64_t offset, int64_t size) {
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
    const Inside cols = inside(g.out_width, w.stride[1], offset, g.width);
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
// [columns]. Then every weight meets a contiguous run of numbers for the outputs of all rows in one go, whatever stride
// and dilation are; the last columns of each row are computed for nothing.
struct Phases {
  int64_t rows, cols, size, outputs;  // of one phase; outputs counts those computed for nothing too
};
static Phases phases_of(const Depthwise& g) {
  const Window& w = g.window;
  const int64_t rows = divide_up(g.height + 2 * w.padding[0], w.stride[0]),
                cols = divide_up(g.width + 2 * w.padding[1], w.stride[1]);
  // A phase ends with what the last vectors of outputs may read past it.
  return {rows, cols, round_up(rows * cols + 4 * kLanes, kLanes), g.out_height * cols};
}
static int64_t depthwise_scratch(const Depthwise& g) {
  const Phases p = phases_of(g);
  return p.size * g.window.stride[0] * g.window.stride[1] + round_up(p.outputs, 4 * kLanes) +
         g.window.kernel[0] * g.window.kernel[1];
}

// The borders are zero already, and stay so.
static void split_plane(const Depthwise& g, const Phases& p, const float* x, float* split) {
  const Window& w = g.window;
  for (int64_t y = 0; y < g.height; ++y) {
    const int64_t row = y + w.padding[0];
    float* to = split + (row % w.stride[0] * w.stride[1]) * p.size + row / w.stride[0] * p.cols;
    if (w.stride[1] == 1) {
      __builtin_memcpy(to + w.padding[1], x + y * g.width, static_cast<size_t>(g.width) * sizeof(float));
      continue;
    }
    for (int64_t phase = 0; phase < w.stride[1]; ++phase) {
      const int64_t first = ((phase - w.padding[1]) % w.stride[1] + w.stride[1]) % w.stride[1];  // column of x
      float* run = to + phase * p.size + (first + w.padding[1]) / w.stride[1];
      const float* from = x + y * g.width + first;
      const int64_t n = g.width > first ? divide_up(g.width - first, w.stride[1]) : 0;
      if (w.stride[1] == 2) {  // by a known number, which the compiler can vectorise
        for (int64_t i = 0; i < n; ++i) run[i] = from[i * 2];
      } else {
        for (int64_t i = 0; i < n; ++i) run[i] = from[i * w.stride[1]];
      }
    }
  }
}

static void depthwise(const Depthwise& g, int64_t begin, int64_t end, float* scratch) {
  const Window& w = g.window;
  const Phases p = phases_of(g);
  const int64_t out_channels = g.channels * g.multiplier, taps = w.kernel[0] * w.kernel[1];
  float* sums = scratch + p.size * w.stride[0] * w.stride[1];
  auto* offsets = reinterpret_cast<int32_t*>(sums + round_up(p.outputs, 4 * kLanes));
  for (int64_t t = 0; t < taps; ++t) {
    const int64_t y = t / w.kernel[1] * w.dilation[0], x = t % w.kernel[1] * w.dilation[1];
    offsets[t] = static_cast<int32_t>((y % w.stride[0] * w.stride[1] + x % w.stride[1]) * p.size + y / w.stride[0] * p.cols +
                                      x / w.stride[1]);
  }
  zero(scratch, sums - scratch);
  for (int64_t u = begin; u < end; ++u) {
    const int64_t batch = u / out_channels, channel = u % out_channels;
    split_plane(g, p, g.x + (batch * g.channels + channel / g.multiplier) * g.height * g.width, scratch);
    const float* weight = g.weight + channel * taps;
    const F bias = set(g.bias != nullptr ? g.bias[channel] : 0);
    for (int64_t i = 0; i < p.outputs; i += 4 * kLanes) {
      F sum[4] = {bias, bias, bias, bias};
      for (int64_t t = 0; t < taps; ++t) {
        const float* from = scratch + offsets[t] + i;
        const F factor = set(weight[t]);
        for (int v = 0; v < 4; ++v) sum[v] = fma(factor, load(from + v * kLanes), sum[v]);
      }
      for (int v = 0; v < 4; ++v) store(sums + i + v * kLanes, sum[v]);
    }
    if (g.activation != Unary::identity) table->unary[static_cast<int>(g.activation)](sums, sums, p.outputs, g.p, g.q);
    for (int64_t oh = 0; oh < g.out_height; ++oh)
      __builtin_memcpy(g.out + (u * g.out_height + oh) * g.out_width, sums + oh * p.cols,
                       static_cast<size_t>(g.out_width) * sizeof(float));
  }
}

static void pool(const Pool& g, int64_t begin, int64_t end, float*) {
  const Window& w = g.window;
  for (int64_t u = begin; u < end; ++u) {
    const float* x = g.x + u * g.height * g.width;
    float* out = g.out + u * g.out_height * g.out_width;
    for (int64_t oh = 0; oh < g.out_height; ++oh)
      for (int64_t ow = 0; ow < g.out_width; ++ow) {
        const int64_t top = oh * w.stride[0] - w.padding[0], left = ow * w.stride[1] - w.padding[1];
        float best = -__builtin_inff(), total = 0;
        int64_t count = 0;
        for (int64_t kh = 0; kh < w.kernel[0]; ++kh) {
          const int64_t ih = top + kh * w.dilation[0];
          if (ih < 0 || ih >= g.height) continue;
          for (int64_t kw = 0; kw < w.kernel[1]; ++kw) {
            const int64_t iw = left + kw * w.dilation[1];
            if (iw < 0 || iw >= g.width) continue;
            const float v = x[ih * g.width + iw];
            best = v > best || v != v ? v : best;
            total += v;
            ++count;
          }
        }
        if (g.average) {
          if (g.count_padding) {
            const int64_t bottom = smaller(top + w.kernel[0], g.height + w.padding[0]);
            const int64_t right = smaller(left + w.kernel[1], g.width + w.padding[1]);
            count = (bottom - top) * (right - left);
          }
          best = total / static_cast<float>(g.divisor != 0 ? g.divisor : count);
        }
        out[oh * g.out_width + ow] = best;
      }
  }
}

void fill_windows(Kernels& k) {
  table = &k;
#define NO_SCRATCH(name, Args, units)                              \
  k.name = name;                                                   \
  k.name##_units = [](const Args& g) -> int64_t { return units; }; \
  k.name##_scratch = [](const Args&) -> int64_t { return 0; };
  NO_SCRATCH(im2col, Im2Col, g.channels * g.window.kernel[0] * g.window.kernel[1])
  NO_SCRATCH(depthwise, Depthwise, g.batch * g.channels * g.multiplier)
  k.depthwise_scratch = depthwise_scratch;
  NO_SCRATCH(pool, Pool, g.planes)
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
