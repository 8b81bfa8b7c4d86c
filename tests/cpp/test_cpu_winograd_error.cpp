// The rounding of Winograd's way beside that of direct sums, on the layers of ResNet34, ResNet50 and VGG16 that it may be chosen
// for: their channels, and a part of their images that has whole tiles, cut ones and edges.
#include "kernel_cases.h"

namespace pycandle::cpu {
namespace {

struct Numbers {
  const char* name;
  float (*weight)(Random&, int64_t channel, int64_t place);
  float (*pixel)(Random&, int64_t channel, int64_t position);
};

float normal(Random& random, int64_t, int64_t) { return random.normal(); }
// After a ReLU.
float positive(Random& random, int64_t, int64_t) { return std::fabs(random.normal()); }

const Numbers kNumbers[] = {
    {"as trained, perturbed", normal, positive},
    {"inputs of both signs", normal, normal},
    {"heavy tails", [](Random& r, int64_t, int64_t) { return std::pow(r.normal(), 5.0f); },
     [](Random& r, int64_t, int64_t) { return std::fabs(std::pow(r.normal(), 3.0f)); }},
    {"a channel a thousand times larger", [](Random& r, int64_t c, int64_t) { return r.normal() * (c == 5 ? 1000.0f : 1.0f); },
     positive},
    {"the highest frequency", [](Random& r, int64_t, int64_t p) { return (p % 2 == 0 ? 1.0f : -1.0f) + 0.01f * r.normal(); },
     positive},
    {"inputs far from zero", normal, [](Random& r, int64_t, int64_t) { return 100 + r.normal(); }},
    {"small", [](Random& r, int64_t, int64_t) { return 1e-15f * r.normal(); }, positive},
    {"large", [](Random& r, int64_t, int64_t) { return 1e15f * r.normal(); }, positive},
};

struct Errors {
  double direct, winograd;  // RMS
};

Errors errors_of(const Kernels& k, Random& random, int64_t in, int64_t made, int64_t tile, const Numbers& numbers) {
  constexpr int64_t kSide = 10, kPixels = kSide * kSide;
  const int64_t out_channels = std::min<int64_t>(made, 2 * k.lanes);
  Winograd args;
  args.tile = tile;
  BlockedConvolution& g = args.shape;
  g.batch = 1;
  g.channels = in;
  g.out_channels = out_channels;
  g.height = g.width = g.out_height = g.out_width = kSide;
  g.window = {{3, 3}, {1, 1}, {1, 1}, {1, 1}};
  const auto lane = [&](int64_t channel, int64_t position) {
    return (channel / k.lanes * kPixels + position) * k.lanes + channel % k.lanes;
  };
  std::vector<float> x(in * kPixels), weight(out_channels * in * 9);
  for (int64_t c = 0; c < in; ++c)
    for (int64_t i = 0; i < kPixels; ++i) x[lane(c, i)] = numbers.pixel(random, c, i);
  for (int64_t i = 0; i < static_cast<int64_t>(weight.size()); ++i) weight[i] = numbers.weight(random, i / 9 % in, i % 9);
  Guarded<float> direct(random, k.packed_blocked_size(g)), transformed(random, k.packed_winograd_size(args));
  Guarded<float> of_direct(random, out_channels * kPixels), of_winograd(random, out_channels * kPixels);
  const PackBlocked pack{g, weight.data(), direct.data()};
  RUN(k, pack_blocked, pack);
  const PackWinograd transform{args, weight.data(), nullptr, transformed.data()};
  RUN(k, pack_winograd, transform);
  g.x = x.data();
  g.packed = direct.data();
  g.out = of_direct.data();
  RUN(k, blocked_convolution, g);
  g.packed = transformed.data();
  g.out = of_winograd.data();
  RUN(k, winograd, args);
  Errors e{0, 0};
  for (int64_t o = 0; o < out_channels; o += 3)
    for (int64_t i = 0; i < kPixels; ++i) {
      double sum = 0;
      for (int64_t h = -1; h <= 1; ++h)
        for (int64_t w = -1; w <= 1; ++w) {
          const int64_t y = i / kSide + h, at = i % kSide + w, place = (h + 1) * 3 + w + 1;
          if (y < 0 || y >= kSide || at < 0 || at >= kSide) continue;
          for (int64_t c = 0; c < in; ++c)
            sum += static_cast<double>(x[lane(c, y * kSide + at)]) * weight[(o * in + c) * 9 + place];
        }
      e.direct += std::pow(of_direct[lane(o, i)] - sum, 2);
      e.winograd += std::pow(of_winograd[lane(o, i)] - sum, 2);
    }
  return {std::sqrt(e.direct), std::sqrt(e.winograd)};
}

TEST(WinogradError, IsAtMostTenTimesThatOfDirectSumsOnEveryLayer) {
  constexpr int64_t kLayers[][2] = {{64, 64}, {64, 128}, {128, 128}, {128, 256}, {256, 256}, {256, 512}, {512, 512}};
  Random random(35);
  each_isa([&](const Kernels& k) {
    for (const auto& [in, made] : kLayers)
      for (const int64_t tile : {2, 4})
        for (const Numbers& numbers : kNumbers) {
          const Errors e = errors_of(k, random, in, made, tile, numbers);
          ASSERT_GT(e.direct, 0);
          EXPECT_LE(e.winograd, 10 * e.direct) << k.isa << ", " << in << " to " << made << " channels, tiles of " << tile << ", "
                                               << numbers.name << ": " << e.winograd / e.direct << " times";
        }
  });
}

}  // namespace
}  // namespace pycandle::cpu
