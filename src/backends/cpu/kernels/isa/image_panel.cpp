// The panels of im2col's matrix, made from the image when gemm needs them: the matrix itself is never written down.
#include "backends/cpu/kernels/isa/isa.h"
#include "backends/cpu/kernels/isa/transpose.h"

namespace pycandle::cpu::PYCANDLE_ISA {

// Neighbouring columns of a panel that are a stride apart in a row of the image.
struct Run {
  int32_t first, count, offset;
};

// The runs of the pixels [col, col + cols) at one place of the window; columns in no run are outside of the image.
static int runs_of(const Im2Col& im, int64_t col, int64_t cols, int64_t place, Run (&runs)[kPanel]) {
  const Window& w = im.window;
  const int64_t down = place / w.kernel[1] * w.dilation[0] - w.padding[0],
                right = place % w.kernel[1] * w.dilation[1] - w.padding[1];
  int64_t oh = col / im.out_width, ow = col % im.out_width;
  int count = 0;
  for (int64_t j = 0; j < cols; ++j) {
    const int64_t y = oh * w.stride[0] + down, x = ow * w.stride[1] + right;
    if (++ow == im.out_width) {
      ow = 0;
      ++oh;
    }
    if (y < 0 || y >= im.height || x < 0 || x >= im.width) continue;
    const auto offset = static_cast<int32_t>(y * im.width + x), at = static_cast<int32_t>(j);
    Run* last = count > 0 ? &runs[count - 1] : nullptr;
    // A run stays within a vector, so that one load and one store move it.
    if (last != nullptr && last->first + last->count == at && last->offset + last->count * w.stride[1] == offset &&
        at % kLanes != 0) {
      ++last->count;
    } else {
      runs[count++] = {at, 1, offset};
    }
  }
  return count;
}

void pack_image_panel(const Im2Col& im, const float* x, int64_t k0, int64_t k, int64_t col, int64_t cols, int64_t width,
                      float* out) {
  const int64_t places = im.window.kernel[0] * im.window.kernel[1], plane = im.height * im.width, stride = im.window.stride[1];
  Run runs[kPanel];
  for (int64_t place = 0; place < places; ++place) {
    const int count = runs_of(im, col, cols, place, runs);
    int64_t inside = 0;
    for (int i = 0; i < count; ++i) inside += runs[i].count;
    // Rows (channel, place) of the matrix that lie in [k0, k0 + k).
    const int64_t first = k0 > place ? divide_up(k0 - place, places) : 0;
    for (int64_t channel = first; channel * places + place < k0 + k; ++channel) {
      const float* from = x + channel * plane;
      float* to = out + (channel * places + place - k0) * width;
      if (inside < width)
        for (int64_t j = 0; j < width; j += kLanes) store_n(to + j, smaller(kLanes, width - j), set(0));
      for (int i = 0; i < count; ++i) {
        const Run& r = runs[i];
        const float* run = from + r.offset;
        if (stride == 1) {
          store_n(to + r.first, r.count, load_n(run, r.count));
        } else if (stride == 2) {
          const int64_t span = 2 * r.count - 1;  // numbers from the first to the last
          const F low = load_n(run, smaller(kLanes, span)), high = span > kLanes ? load_n(run + kLanes, span - kLanes) : set(0);
          store_n(to + r.first, r.count, even_lanes(low, high, AllLanes{}));
        } else {
          for (int64_t j = 0; j < r.count; ++j) to[r.first + j] = run[j * stride];
        }
      }
    }
  }
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
