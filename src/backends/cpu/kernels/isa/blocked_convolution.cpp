// Convolutions to blocked images (kernels.h): register tiles of pixels × out channels. Where windows reach past the image, a band
// of its rows is copied to scratch with its padding first, for all out channels at once; else the image is read where it lies.
//
// Packed weights: [group][panel of out channels][block of channels][kernel row][kernel column][channel][vectors][lanes].
#include <utility>

#include "backends/cpu/kernels/isa/blocked_sums.h"
#include "backends/cpu/kernels/isa/epilogue.h"

namespace pycandle::cpu::PYCANDLE_ISA {

constexpr int64_t kBand = 64 << 10;  // floats of the image that are read again and again: a quarter of the second cache
constexpr int64_t kWeights = 16 << 10;  // floats of weights, likewise

// ---- register tiles

// kPixel: s.pixel, or 0 where it is not known.
template <int kPixels, int kVectors, int kPixel> static void sum_windows(const Windows& s, const Sums& to) {
  F sum[kPixels][kVectors];
#pragma GCC unroll 14
  for (int r = 0; r < kPixels; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = to.on_top ? load(to.out + v * to.block + r * kLanes) : set(0);
  const int64_t pixel = kPixel != 0 ? kPixel : s.pixel;
  for (int64_t b = 0; b < s.blocks; ++b)
    for (int64_t h = 0; h < s.rows; ++h)
      for (int64_t c = 0; c < s.columns; ++c) {
        const float* x = s.x + b * s.x_block + h * s.x_row + c * s.x_column;
        const float* w = s.w + b * s.w_block + h * s.w_row + c * s.w_column;
        for (int64_t d = 0; d < s.depth; ++d, ++x, w += kVectors * kLanes) {
          F columns[kVectors];
#pragma GCC unroll 4
          for (int v = 0; v < kVectors; ++v) columns[v] = load(w + v * kLanes);
#pragma GCC unroll 14
          for (int r = 0; r < kPixels; ++r) {
            const F here = set(x[r * pixel]);
#pragma GCC unroll 4
            for (int v = 0; v < kVectors; ++v) sum[r][v] = fma(here, columns[v], sum[r][v]);
          }
        }
      }
  if (to.finishes) {
    const F low = set(to.low), high = set(to.high);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const F bias = to.bias != nullptr ? load(to.bias + v * kLanes) : set(0);
#pragma GCC unroll 14
      for (int r = 0; r < kPixels; ++r) sum[r][v] = sum[r][v] + bias;
      if (to.residual != nullptr) {
#pragma GCC unroll 14
        for (int r = 0; r < kPixels; ++r) sum[r][v] = sum[r][v] + load(to.residual + v * to.block + r * kLanes);
      }
#pragma GCC unroll 14
      for (int r = 0; r < kPixels; ++r) sum[r][v] = min2(high, max2(low, sum[r][v]));  // NaN stays
    }
  }
#pragma GCC unroll 14
  for (int r = 0; r < kPixels; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) store(to.out + v * to.block + r * kLanes, sum[r][v]);
}

template <int kPixels, int kVectors, int kPixel> constexpr WindowsFn function_or_null() {
  if constexpr (kPixels * kVectors <= kSums) {
    return sum_windows<kPixels, kVectors, kPixel>;
  } else {
    return nullptr;
  }
}

struct WindowsTable {
  WindowsFn at[kMostPixels][kMostVectors];
};
template <int kPixel, int... kPixels> constexpr WindowsTable windows_table(std::integer_sequence<int, kPixels...>) {
  return {{{function_or_null<kPixels + 1, 1, kPixel>(), function_or_null<kPixels + 1, 2, kPixel>(),
#if defined(__AVX512F__)
            function_or_null<kPixels + 1, 3, kPixel>(), function_or_null<kPixels + 1, 4, kPixel>()
#endif
  }...}};
}

WindowsFn windows_function(int64_t pixels, int64_t vectors, int64_t pixel) {
  using Pixels = std::make_integer_sequence<int, kMostPixels>;
  static constexpr WindowsTable one = windows_table<kLanes>(Pixels()), other = windows_table<0>(Pixels());
  const WindowsTable& table = pixel == kLanes ? one : other;
  return table.at[pixels - 1][vectors - 1];
}

// ---- how a convolution is cut

struct Cut {
  int64_t lanes;  // channels that lie side by side in what is read
  int64_t channels, blocks;  // of a group
  int64_t out_blocks, vectors, panels;  // of a group: blocks of out channels, so many in a panel
  bool in_place;  // no window reaches past the image
  int64_t rows, width;  // out rows and their pixels: of a 1×1 convolution one long row
  int64_t pixels, tiles;  // the most in a tile, and tiles in a row
  int64_t x_row, x_block;  // floats of what is read
  int64_t band, bands;  // tiles of a band
};

static int64_t divided(int64_t n, int64_t most) { return n / divide_up(n, most) + (n % divide_up(n, most) != 0 ? 1 : 0); }

static int64_t vectors_of(const BlockedConvolution& g, int64_t width) {
  const int64_t out_blocks = divide_up(g.out_channels / g.groups, kLanes);
  return smaller(out_blocks, width * 2 <= kMostPixels ? kMostVectors : 2);
}

static Cut cut_of(const BlockedConvolution& g) {
  const Window& w = g.window;
  Cut c;
  c.channels = g.channels / g.groups;
  c.lanes = g.from_planes ? c.channels : kLanes;
  c.blocks = divide_up(c.channels, c.lanes);
  c.out_blocks = divide_up(g.out_channels / g.groups, kLanes);
  const auto stays_inside = [&](int d, int64_t size, int64_t out) {
    return w.padding[d] == 0 && (out - 1) * w.stride[d] + (w.kernel[d] - 1) * w.dilation[d] + 1 <= size;
  };
  c.in_place = !g.from_planes && stays_inside(0, g.height, g.out_height) && stays_inside(1, g.width, g.out_width);
  const bool is_product = c.in_place && w.kernel[0] * w.kernel[1] == 1 && w.stride[0] * w.stride[1] == 1;
  c.rows = is_product ? 1 : g.out_height;
  c.width = is_product ? g.out_height * g.out_width : g.out_width;
  c.vectors = vectors_of(g, c.width);
  c.panels = divide_up(c.out_blocks, c.vectors);
  c.pixels = divided(c.width, smaller(kMostPixels, kSums / c.vectors));
  c.tiles = divide_up(c.width, c.pixels);
  const int64_t padded = (g.out_width - 1) * w.stride[1] + (w.kernel[1] - 1) * w.dilation[1] + 1;
  c.x_row = (c.in_place ? g.width : padded) * c.lanes;
  if (is_product) {
    c.band = divided(c.tiles, larger(1, kBand / (c.channels * c.pixels)));
  } else {
    const int64_t row = c.blocks * c.x_row * w.stride[0], more = (w.kernel[0] - 1) * w.dilation[0] / w.stride[0];
    c.band = divided(c.rows, larger(1, kBand / larger(1, row) - more)) * c.tiles;
  }
  c.bands = divide_up(c.rows * c.tiles, c.band);
  const int64_t band_rows = (c.band / c.tiles - 1) * w.stride[0] + (w.kernel[0] - 1) * w.dilation[0] + 1;
  c.x_block = (c.in_place ? g.height : band_rows) * c.x_row;
  return c;
}

// ---- bands of the image with their padding

static void zero(float* p, int64_t n) { __builtin_memset(p, 0, static_cast<size_t>(larger(0, n)) * sizeof(float)); }

// Rows [first, first + rows) of the padded image, where the image has them.
static void copy_band(const BlockedConvolution& g, const Cut& c, const float* x, int64_t first, int64_t rows, float* out) {
  const int64_t left = smaller(g.window.padding[1] * c.lanes, c.x_row);
  const int64_t here = smaller(c.x_row - left, g.width * c.lanes);
  for (int64_t block = 0; block < c.blocks; ++block) {
    const float* image = x + block * g.height * g.width * c.lanes;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t y = first + r - g.window.padding[0];
      if (y < 0 || y >= g.height) continue;
      float* to = out + block * c.x_block + r * c.x_row;
      zero(to, left);
      if (!g.from_planes) {
        __builtin_memcpy(to + left, image + y * g.width * c.lanes, static_cast<size_t>(here) * sizeof(float));
      } else {
        for (int64_t channel = 0; channel < c.channels; ++channel) {
          const float* from = x + (channel * g.height + y) * g.width;
          for (int64_t i = 0; i < here / c.lanes; ++i) to[left + i * c.lanes + channel] = from[i];
        }
      }
      zero(to + left + here, c.x_row - left - here);
    }
  }
}

// ---- the driver

// A band of one image and group: where the padded row `first` lies.
struct Band {
  const float* x;
  int64_t first;
};

static int64_t panel_size(const BlockedConvolution& g, const Cut& c) {
  return c.channels * g.window.kernel[0] * g.window.kernel[1] * kLanes;  // of one vector
}

Sums sums_of(const BlockedConvolution& g, const float* bias, int64_t block) {
  const Epilogue& e = g.epilogue;
  const bool is_clamp = e.activation == Unary::clamp, is_plain = e.activation == Unary::identity;
  const bool finishes = e.scale == 1 && e.multiplier == nullptr && (is_clamp || is_plain || e.activation == Unary::relu) &&
                        (e.residual == nullptr || is_plain || e.residual_first);
  return {nullptr,
          block,
          false,
          finishes,
          bias,
          nullptr,
          is_clamp   ? e.p
          : is_plain ? -__builtin_inff()
                     : 0,
          is_clamp ? e.q : __builtin_inff()};
}

void finish_tile(const BlockedConvolution& g, const Sums& sums, int64_t vectors, int64_t pixels) {
  for (int64_t v = 0; v < vectors; ++v) {
    float* to = sums.out + v * sums.block;
    const float* bias = sums.bias != nullptr ? sums.bias + v * kLanes : nullptr;
    const auto beside = [&](const float* x) { return x != nullptr ? x + (to - g.out) : nullptr; };
    finish(g.epilogue,
           {to, kLanes, pixels, kLanes, to, kLanes, bias, nullptr, beside(g.epilogue.multiplier), beside(g.epilogue.residual)});
  }
}

// Tiles [begin, end) of one panel of out channels, summed over the blocks of channels [block, block + blocks) of equal depth.
struct Blocks {
  int64_t first, count, depth;
  bool is_last;
};
static void convolve(const BlockedConvolution& g, const Cut& c, const Band& band, const Blocks& blocks, int64_t begin,
                     int64_t end, int64_t vectors, const float* w, const float* bias, float* out) {
  const Window& window = g.window;
  const int64_t plane = g.out_height * g.out_width * kLanes, step = vectors * kLanes;
  Windows s;
  s.pixel = window.stride[1] * c.lanes;
  s.blocks = blocks.count;
  s.columns = window.kernel[1];
  s.depth = blocks.depth;
  s.x_block = c.x_block;
  s.x_row = window.dilation[0] * c.x_row;
  s.x_column = window.dilation[1] * c.lanes;
  s.w_column = s.depth * step;
  s.w_row = s.columns * s.w_column;
  s.w_block = window.kernel[0] * s.w_row;
  if (s.depth == c.lanes && window.dilation[1] == 1) {  // the columns of a window lie side by side
    s.depth *= s.columns;
    s.columns = 1;
  }
  Sums sums = sums_of(g, bias, plane);
  const bool finishes = sums.finishes;
  sums.finishes = finishes && blocks.is_last;
  sums.on_top = blocks.first > 0;
  for (int64_t t = begin; t < end; ++t) {
    const int64_t row = t / c.tiles, column = part_begin(c.width, c.tiles, t % c.tiles);
    const int64_t pixels = part_begin(c.width, c.tiles, t % c.tiles + 1) - column;
    // The rows of the window that lie inside the image.
    const int64_t y = row * window.stride[0] - window.padding[0];
    const int64_t skipped = y < 0 ? smaller(window.kernel[0], divide_up(-y, window.dilation[0])) : 0;
    const int64_t stop = smaller(window.kernel[0], y < g.height ? divide_up(g.height - y, window.dilation[0]) : 0);
    s.rows = larger(0, stop - skipped);
    s.x = band.x + blocks.first * c.x_block + (row * window.stride[0] - band.first) * c.x_row + column * s.pixel +
          skipped * s.x_row;
    s.w = w + skipped * s.w_row;
    sums.out = out + (row * c.width + column) * kLanes;
    if (g.epilogue.residual != nullptr) sums.residual = g.epilogue.residual + (sums.out - g.out);
    windows_function(pixels, vectors, s.pixel)(s, sums);
    if (blocks.is_last && !finishes) finish_tile(g, sums, vectors, pixels);
  }
}

static void blocked_convolution(const BlockedConvolution& g, int64_t begin, int64_t end, float* scratch) {
  const Cut c = cut_of(g);
  const int64_t plane = g.height * g.width * kLanes, out_plane = g.out_height * g.out_width * kLanes;
  const int64_t image = g.from_planes ? g.channels * g.height * g.width : g.groups * c.blocks * plane;
  const int64_t taps = g.window.kernel[0] * g.window.kernel[1], size = panel_size(g, c);
  const int64_t whole = c.channels / c.lanes, rest = c.channels % c.lanes;  // blocks, and channels of another one
  int64_t copied = -1;
  for (int64_t u = begin; u < end; ++u) {
    const int64_t panel = u % c.panels, at = u / c.panels, b = at % c.bands, group = at / c.bands % g.groups;
    const int64_t n = at / c.bands / g.groups, first = b * c.band, last = smaller(first + c.band, c.rows * c.tiles);
    Band band{g.x + n * image + group * c.blocks * plane, 0};
    if (!c.in_place) {
      band.first = first / c.tiles * g.window.stride[0];
      const int64_t rows = (divide_up(last, c.tiles) - 1 - first / c.tiles) * g.window.stride[0] +
                           (g.window.kernel[0] - 1) * g.window.dilation[0] + 1;
      if (copied != at) copy_band(g, c, band.x, band.first, rows, scratch);
      copied = at;
      band.x = scratch;
    }
    const int64_t out_block = panel * c.vectors, vectors = smaller(c.vectors, c.out_blocks - out_block);
    const float* w = g.packed + (group * c.out_blocks + out_block) * size;
    const float* bias = g.epilogue.bias != nullptr ? g.epilogue.bias + (group * c.out_blocks + out_block) * kLanes : nullptr;
    float* out = g.out + ((n * g.groups + group) * c.out_blocks + out_block) * out_plane;
    const int64_t block = c.lanes * taps * vectors * kLanes, most = larger(1, kWeights / block);
    for (int64_t i = 0; i < whole; i += most) {
      const int64_t here = smaller(most, whole - i);
      convolve(g, c, band, {i, here, c.lanes, rest == 0 && i + here == whole}, first, last, vectors, w + i * block, bias, out);
    }
    if (rest > 0) convolve(g, c, band, {whole, 1, rest, true}, first, last, vectors, w + whole * block, bias, out);
  }
}

static void pack_blocked(const PackBlocked& p, int64_t, int64_t, float*) {
  const BlockedConvolution& g = p.shape;
  const Cut c = cut_of(g);
  const int64_t taps = g.window.kernel[0] * g.window.kernel[1], made = g.out_channels / g.groups;
  float* to = p.out;
  for (int64_t group = 0; group < g.groups; ++group)
    for (int64_t panel = 0; panel < c.panels; ++panel) {
      const int64_t first = panel * c.vectors * kLanes, width = smaller(c.vectors, c.out_blocks - panel * c.vectors) * kLanes;
      for (int64_t block = 0; block < c.channels; block += c.lanes)
        for (int64_t tap = 0; tap < taps; ++tap)
          for (int64_t i = block; i < smaller(c.channels, block + c.lanes); ++i)
            for (int64_t o = first; o < first + width; ++o)
              *to++ = o < made ? p.weight[((group * made + o) * c.channels + i) * taps + tap] : 0;
    }
}

void fill_blocked_convolution(Kernels& k) {
  k.packed_blocked_size = [](const BlockedConvolution& g) -> int64_t {
    const Cut c = cut_of(g);
    return g.groups * c.out_blocks * panel_size(g, c);
  };
  k.blocked_panel = [](const BlockedConvolution& g) -> int64_t { return cut_of(g).vectors * kLanes; };
  k.blocked_convolution = blocked_convolution;
  k.blocked_convolution_units = [](const BlockedConvolution& g) -> int64_t {
    const Cut c = cut_of(g);
    return g.batch * g.groups * c.bands * c.panels;
  };
  k.blocked_convolution_scratch = [](const BlockedConvolution& g) -> int64_t {
    const Cut c = cut_of(g);
    return c.in_place ? 0 : c.blocks * c.x_block;
  };
  SET_WITHOUT_SCRATCH(pack_blocked, PackBlocked, g.shape.groups > 0 ? 1 : 0)
}

}  // namespace pycandle::cpu::PYCANDLE_ISA
