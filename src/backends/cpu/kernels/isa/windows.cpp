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

static void depthwise(const Depthwise& g, int64_t begin, int64_t end, float*) {
  const Window& w = g.window;
  const int64_t out_channels = g.channels * g.multiplier;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t batch = u / out_channels, channel = u % out_channels;
    const float* x = g.x + (batch * g.channels + channel / g.multiplier) * g.height * g.width;
    const float* weight = g.weight + channel * w.kernel[0] * w.kernel[1];
    const F bias = set(g.bias != nullptr ? g.bias[channel] : 0);
    for (int64_t oh = 0; oh < g.out_height; ++oh) {
      float* out = g.out + (u * g.out_height + oh) * g.out_width;
      for (int64_t i = 0; i < g.out_width; i += kLanes) store_n(out + i, smaller(kLanes, g.out_width - i), bias);
      for (int64_t kh = 0; kh < w.kernel[0]; ++kh) {
        const int64_t ih = oh * w.stride[0] - w.padding[0] + kh * w.dilation[0];
        if (ih < 0 || ih >= g.height) continue;
        for (int64_t kw = 0; kw < w.kernel[1]; ++kw) {
          const int64_t offset = kw * w.dilation[1] - w.padding[1];
          const Inside cols = inside(g.out_width, w.stride[1], offset, g.width);
          const float* row = x + ih * g.width + offset;
          const float factor = weight[kh * w.kernel[1] + kw];
          if (w.stride[1] == 1) {
            const F f = set(factor);
            for (int64_t i = cols.first; i < cols.last; i += kLanes) {
              const int64_t n = smaller(kLanes, cols.last - i);
              store_n(out + i, n, fma(f, load_n(row + i, n), load_n(out + i, n)));
            }
          } else {
            for (int64_t i = cols.first; i < cols.last; ++i) out[i] += factor * row[i * w.stride[1]];
          }
        }
      }
      if (g.activation != Unary::identity) table->unary[static_cast<int>(g.activation)](out, out, g.out_width, g.p, g.q);
    }
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
  NO_SCRATCH(pool, Pool, g.planes)
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
