// Kernels of images in blocks of channels against loops in f64. Lanes that fill up the last block hold NaN: nothing may read
// them.
#include "kernel_cases.h"

namespace pycandle::cpu {
namespace {

// An image [planes of channels] in blocks.
struct Blocks {
  int64_t batch, channels, size, lanes;
  int64_t blocks() const { return (channels + lanes - 1) / lanes; }
  int64_t floats() const { return batch * blocks() * size * lanes; }
  int64_t at(int64_t n, int64_t channel, int64_t position) const {
    return ((n * blocks() + channel / lanes) * size + position) * lanes + channel % lanes;
  }
};

Guarded<float> image(Random& random, const Blocks& b) {
  Guarded<float> out(random, b.floats());
  for (int64_t i = 0; i < out.size(); ++i) out[i] = kNan;
  for (int64_t n = 0; n < b.batch; ++n)
    for (int64_t c = 0; c < b.channels; ++c)
      for (int64_t i = 0; i < b.size; ++i) out[b.at(n, c, i)] = random.normal();
  return out;
}

void small_window(Random& random, BlockedConvolution& g) {
  do g.window = random_window(random, g.height, g.width, g.out_height, g.out_width);
  while (g.out_height * g.out_width > 300);
  if (random.chance(0.2)) {  // a product
    g.window = {};
    g.out_height = g.height;
    g.out_width = g.width;
  }
}

struct Operands {
  Guarded<float> bias, multiplier, residual;
};
// An epilogue, often as networks have it.
void random_epilogue(Random& random, Operands& o, Epilogue& e, int64_t lanes) {
  static constexpr Unary functions[] = {Unary::identity, Unary::relu, Unary::clamp, Unary::silu, Unary::hardswish, Unary::gelu};
  e.activation = functions[random.integer(0, std::size(functions) - 1)];
  if (e.activation == Unary::clamp) e.q = 6;
  if (random.chance(0.7)) e.bias = o.bias.data();
  if (random.chance(0.2)) {
    e.multiplier = o.multiplier.data();
    e.multiplier_row = lanes;
  }
  if (random.chance(0.4)) {
    e.residual = o.residual.data();
    e.residual_row = lanes;
    e.residual_first = random.chance(0.5);
  }
}

// Of the sum, and what a rounding of its terms may make of it.
struct Expected {
  double value, tolerance;
};
Expected finished(const Epilogue& e, double sum, double scale, int64_t terms, int64_t channel, int64_t at) {
  if (e.bias != nullptr) sum += e.bias[channel];
  if (e.residual != nullptr && e.residual_first) sum += e.residual[at];
  scale += std::fabs(sum) + 1;
  double y = value_of(e.activation, sum, e.p, e.q);
  if (e.multiplier != nullptr) y *= e.multiplier[at];
  if (e.residual != nullptr && !e.residual_first) y += e.residual[at];
  const double growth = e.multiplier != nullptr ? std::fabs(e.multiplier[at]) + 1 : 1;
  return {y, 2 * growth * (scale + std::fabs(y)) * (4 + std::sqrt(static_cast<double>(terms))) * kEps};
}

void check_convolution(Random& random, const Kernels& k) {
  BlockedConvolution g;
  g.batch = random.integer(1, 3);
  g.groups = random.chance(0.8) ? 1 : random.integer(2, 3);
  g.from_planes = g.groups == 1 && random.chance(0.2);
  const auto channels = [&] {
    return g.groups > 1 ? k.lanes : random.integer(1, random.chance(0.1) ? 5 * k.lanes : 2 * k.lanes + 1);
  };
  g.channels = g.from_planes ? random.integer(1, k.lanes - 1) : g.groups * channels();
  g.out_channels = g.groups * channels();
  small_window(random, g);
  const Blocks in{g.batch, g.channels, g.height * g.width, k.lanes},
      made{g.batch, g.out_channels, g.out_height * g.out_width, k.lanes};
  const int64_t own = g.channels / g.groups, taps = g.window.kernel[0] * g.window.kernel[1];
  const Guarded<float> x = g.from_planes ? numbers(random, g.batch * g.channels * in.size) : image(random, in);
  const Guarded<float> weight = numbers(random, g.out_channels * own * taps);
  Guarded<float> packed(random, k.packed_blocked_size(g)), out(random, made.floats());
  Operands operands{numbers(random, made.blocks() * k.lanes), image(random, made), image(random, made)};
  random_epilogue(random, operands, g.epilogue, k.lanes);
  PackBlocked pack{g, weight.data(), packed.data()};
  RUN(k, pack_blocked, pack);
  ASSERT_TRUE(packed.intact());
  g.x = x.data();
  g.packed = packed.data();
  g.out = out.data();
  RUN(k, blocked_convolution, g);
  ASSERT_TRUE(out.intact());
  for (int64_t i = 0; i < std::min<int64_t>(20, g.batch * g.out_channels * made.size); ++i) {
    const int64_t n = random.integer(0, g.batch - 1), o = random.integer(0, g.out_channels - 1),
                  at = random.integer(0, made.size - 1);
    const int64_t first = o / (g.out_channels / g.groups) * own;
    double sum = 0, scale = 0;
    for (int64_t c = 0; c < own; ++c)
      each_place(g.window, g.height, g.width, at / g.out_width, at % g.out_width,
                 [&](int64_t y, int64_t xx, bool inside, int64_t place) {
                   if (!inside) return;
                   const int64_t position = y * g.width + xx;
                   const double pixel = g.from_planes ? x[(n * g.channels + c) * in.size + position]
                                                      : x[in.at(n, first + c, position)];
                   sum += pixel * weight[(o * own + c) * taps + place];
                   scale += std::fabs(pixel * weight[(o * own + c) * taps + place]);
                 });
    const Expected want = finished(g.epilogue, sum, scale, own * taps, o, made.at(n, o, at));
    ASSERT_TRUE(agrees(out[made.at(n, o, at)], want.value, want.tolerance))
        << "channels " << g.channels << " -> " << g.out_channels << " in " << g.groups << ", kernel " << g.window.kernel[0] << "x"
        << g.window.kernel[1] << " stride " << g.window.stride[0] << "," << g.window.stride[1] << " image " << g.height << "x"
        << g.width;
  }
}

TEST(BlockedConvolution, AgreesWithALoopInTenThousandCases) {
  Random random(31);
  int sets = 0;
  each_isa([&](const Kernels&) { ++sets; });
  each_isa([&](const Kernels& k) {
    for (int i = 0; i * sets < 10000 && !testing::Test::HasFatalFailure(); ++i) check_convolution(random, k);
  });
}

TEST(Winograd, IsTheDirectConvolutionWithinItsRounding) {
  Random random(34);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 300; ++i) {
      Winograd args;
      args.tile = random.chance(0.5) ? 2 : 4;
      BlockedConvolution& g = args.shape;
      g.batch = random.integer(1, 2);
      g.channels = k.lanes * random.integer(1, 3);
      g.out_channels = random.integer(1, 3 * k.lanes);
      g.height = random.integer(1, 20);
      g.width = random.integer(1, 20);
      g.window = {{3, 3}, {1, 1}, {random.integer(1, 2), random.integer(1, 2)}, {1, 1}};
      g.out_height = g.height + 2 * g.window.padding[0] - 2;
      g.out_width = g.width + 2 * g.window.padding[1] - 2;
      const Blocks in{g.batch, g.channels, g.height * g.width, k.lanes},
          made{g.batch, g.out_channels, g.out_height * g.out_width, k.lanes};
      const Guarded<float> x = image(random, in), weight = numbers(random, g.out_channels * g.channels * 9);
      Guarded<float> direct(random, k.packed_blocked_size(g)), transformed(random, k.packed_winograd_size(args));
      Guarded<float> want(random, made.floats()), out(random, made.floats());
      Operands operands{numbers(random, made.blocks() * k.lanes), image(random, made), image(random, made)};
      random_epilogue(random, operands, g.epilogue, k.lanes);
      const PackBlocked pack{g, weight.data(), direct.data()};
      RUN(k, pack_blocked, pack);
      const PackWinograd transform{args, weight.data(), nullptr, transformed.data()};
      RUN(k, pack_winograd, transform);
      ASSERT_TRUE(transformed.intact());
      g.x = x.data();
      g.packed = direct.data();
      g.out = want.data();
      RUN(k, blocked_convolution, g);
      g.packed = transformed.data();
      g.out = out.data();
      RUN(k, winograd, args);
      ASSERT_TRUE(out.intact());
      double error = 0, size = 0;
      for (int64_t n = 0; n < g.batch; ++n)
        for (int64_t c = 0; c < g.out_channels; ++c)
          for (int64_t at = 0; at < made.size; ++at) {
            const double y = want[made.at(n, c, at)], off = out[made.at(n, c, at)] - y;
            error += off * off;
            size += y * y + 1;
          }
      ASSERT_LT(std::sqrt(error / size), 40 * kEps) << "tile " << args.tile << " image " << g.height << "x" << g.width;
    }
  });
}

TEST(BlockedDepthwise, AgreesWithALoop) {
  Random random(32);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 500; ++i) {
      BlockedDepthwise args;
      BlockedConvolution& g = args.shape;
      g.batch = random.integer(1, 2);
      g.channels = g.out_channels = g.groups = random.integer(1, 2 * k.lanes + 1);
      small_window(random, g);
      if (random.chance(0.3)) {
        static constexpr int64_t kernels[] = {3, 5, 7};
        const int64_t kernel = kernels[random.integer(0, 2)];
        g.window = {{kernel, kernel}, {g.window.stride[0], g.window.stride[1]}, {kernel / 2, kernel / 2}, {1, 1}};
        g.out_height = (g.height - 1) / g.window.stride[0] + 1;
        g.out_width = (g.width - 1) / g.window.stride[1] + 1;
      }
      const int64_t taps = g.window.kernel[0] * g.window.kernel[1];
      const Blocks in{g.batch, g.channels, g.height * g.width, k.lanes},
          made{g.batch, g.channels, g.out_height * g.out_width, k.lanes};
      const Guarded<float> x = image(random, in), weight = image(random, {1, g.channels, taps, k.lanes});
      Guarded<float> out(random, made.floats());
      Operands operands{numbers(random, made.blocks() * k.lanes), image(random, made), image(random, made)};
      random_epilogue(random, operands, g.epilogue, k.lanes);
      g.x = x.data();
      g.packed = weight.data();
      g.out = out.data();
      RUN(k, blocked_depthwise, args);
      ASSERT_TRUE(out.intact());
      for (int64_t n = 0; n < g.batch; ++n)
        for (int64_t c = 0; c < g.channels; ++c)
          for (int64_t at = 0; at < made.size; ++at) {
            double sum = 0, scale = 0;
            each_place(g.window, g.height, g.width, at / g.out_width, at % g.out_width,
                       [&](int64_t y, int64_t xx, bool inside, int64_t place) {
                         if (!inside) return;
                         const double term = double(x[in.at(n, c, y * g.width + xx)]) *
                                             weight[(c / k.lanes * taps + place) * k.lanes + c % k.lanes];
                         sum += term;
                         scale += std::fabs(term);
                       });
            const Expected want = finished(g.epilogue, sum, scale, taps, c, made.at(n, c, at));
            ASSERT_TRUE(agrees(out[made.at(n, c, at)], want.value, want.tolerance))
                << "kernel " << g.window.kernel[1] << " stride " << g.window.stride[1] << " width " << g.width;
          }
    }
  });
}

// Each channel is a plane of the kernel of whole images.
TEST(BlockedPool, IsThePoolOfEachChannel) {
  Random random(33);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 300; ++i) {
      Pool g;
      do g.window = random_window(random, g.height, g.width, g.out_height, g.out_width);
      while (g.window.padding[0] > g.window.kernel[0] / 2 || g.window.padding[1] > g.window.kernel[1] / 2);
      if (random.chance(0.3) && g.out_height * g.window.stride[0] < g.height + g.window.padding[0]) ++g.out_height;
      g.average = random.chance(0.5);
      if (g.average && (g.window.dilation[0] > 1 || g.window.dilation[1] > 1)) continue;
      g.count_padding = random.chance(0.5);
      if (random.chance(0.2)) g.divisor = random.integer(1, 9);
      const int64_t channels = random.integer(1, 2 * k.lanes);
      const Blocks in{random.integer(1, 2), channels, g.height * g.width, k.lanes};
      const Blocks made{in.batch, channels, g.out_height * g.out_width, k.lanes};
      const Guarded<float> x = image(random, in);
      Guarded<float> out(random, made.floats()), planes(random, in.batch * channels * in.size),
          want(random, in.batch * channels * made.size);
      for (int64_t p = 0; p < in.batch * channels; ++p)
        for (int64_t at = 0; at < in.size; ++at) planes[p * in.size + at] = x[in.at(p / channels, p % channels, at)];
      Pool whole = g;
      whole.planes = in.batch * channels;
      whole.x = planes.data();
      whole.out = want.data();
      RUN(k, pool, whole);
      g.planes = in.batch * in.blocks();
      g.x = x.data();
      g.out = out.data();
      const BlockedPool args{g};
      RUN(k, blocked_pool, args);
      ASSERT_TRUE(out.intact());
      for (int64_t p = 0; p < in.batch * channels; ++p)
        for (int64_t at = 0; at < made.size; ++at)
          ASSERT_TRUE(agrees(out[made.at(p / channels, p % channels, at)], want[p * made.size + at],
                             2e-6 * (1 + std::fabs(want[p * made.size + at]))));
    }
  });
}

}  // namespace
}  // namespace pycandle::cpu
