// Random cases for the kernels of the cpu backend: data with odd alignment, guarded on both sides; work cut at random.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backends/cpu/kernels/kernels.h"

namespace pycandle::cpu {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

struct Random {
  std::mt19937 engine;
  explicit Random(unsigned seed) : engine(seed) {}

  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
  bool chance(double p) { return std::uniform_real_distribution<double>(0, 1)(engine) < p; }
  float normal() { return std::normal_distribution<float>()(engine); }
  // 0 to 70, often at the edge of a tile.
  int64_t size() {
    static constexpr int64_t edges[] = {0, 1, 3, 4, 5, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 28, 31, 32, 33, 48, 63, 64, 65};
    return chance(0.5) ? edges[integer(0, std::size(edges) - 1)] : integer(0, 70);
  }
  int64_t some_size() { return std::max<int64_t>(1, size()); }
  // What breaks arithmetic: NaN, infinities, denormals, huge and tiny numbers.
  float odd() {
    static constexpr float odds[] = {kNan, kInf, -kInf, 1e-40f, -1e-40f, 1e30f, -1e30f, 1e-30f, 0.0f, -0.0f};
    return odds[integer(0, std::size(odds) - 1)];
  }
};

// n numbers at an odd address, with guards on both sides that `intact` looks at.
template <class T> class Guarded {
 public:
  // The address is odd, but a multiple of `multiple` elements.
  Guarded(Random& random, int64_t n, int64_t multiple = 1)
      : offset_(random.integer(kGuard, kGuard + 17) / multiple * multiple + multiple),
        n_(n),
        all_(static_cast<size_t>(n + 2 * kGuard + 50)) {
    std::memset(all_.data(), 0x5a, all_.size() * sizeof(T));
  }
  T* data() { return all_.data() + offset_; }
  const T* data() const { return all_.data() + offset_; }
  T& operator[](int64_t i) { return data()[i]; }
  const T& operator[](int64_t i) const { return data()[i]; }
  int64_t size() const { return n_; }
  bool intact() const {
    T guard;
    std::memset(&guard, 0x5a, sizeof guard);
    for (size_t i = 0; i < all_.size(); ++i) {
      const bool inside = static_cast<int64_t>(i) >= offset_ && static_cast<int64_t>(i) < offset_ + n_;
      if (!inside && std::memcmp(&all_[i], &guard, sizeof guard) != 0) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kGuard = 40;
  int64_t offset_, n_;
  std::vector<T> all_;
};

inline Guarded<float> numbers(Random& random, int64_t n, double odd = 0) {
  Guarded<float> out(random, n);
  for (int64_t i = 0; i < n; ++i) out[i] = odd > 0 && random.chance(odd) ? random.odd() : random.normal();
  return out;
}

// Runs all units of a kernel in a few pieces, in any order, each with scratch that holds NaN.
template <class Args>
void run_in_pieces(Random& random, const Args& args, void (*kernel)(const Args&, int64_t, int64_t, float*),
                   int64_t (*units)(const Args&), int64_t (*scratch)(const Args&)) {
  const int64_t count = units(args);
  std::vector<int64_t> cuts = {0, count};
  for (int64_t i = random.integer(0, 3); i > 0; --i) cuts.push_back(random.integer(0, count));
  std::sort(cuts.begin(), cuts.end());
  std::vector<size_t> order(cuts.size() - 1);
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), random.engine);
  const int64_t floats = scratch(args);
  for (const size_t i : order) {
    if (cuts[i] == cuts[i + 1]) continue;
    std::vector<float> memory(static_cast<size_t>(floats) + 32, kNan);
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    float* aligned = memory.data() + (64 - address % 64) % 64 / sizeof(float);
    float* guard = aligned + floats;
    *guard = 123;
    kernel(args, cuts[i], cuts[i + 1], floats == 0 ? nullptr : aligned);
    ASSERT_EQ(*guard, 123) << "wrote behind its scratch";
  }
}
#define RUN(k, name, args) run_in_pieces(random, args, (k).name, (k).name##_units, (k).name##_scratch)

// Equal within `tolerance`, which is absolute; NaN is NaN, an infinity itself. Where the scale of the computation
// overflows f32, a number may have become infinite or NaN on the way.
inline testing::AssertionResult agrees(float got, double want, double tolerance, double scale = 0) {
  if (!(scale < 1e37)) return testing::AssertionSuccess();
  if (std::isnan(want))
    return std::isnan(got) ? testing::AssertionSuccess() : testing::AssertionFailure() << got << " is not NaN";
  if (std::isinf(want) || std::fabs(want) > 3.5e38) {
    return std::isinf(got) && (got > 0) == (want > 0) ? testing::AssertionSuccess()
                                                      : testing::AssertionFailure() << got << " where " << want;
  }
  if (std::fabs(got - want) <= tolerance + 1e-44) return testing::AssertionSuccess();
  return testing::AssertionFailure() << got << " where " << want << ", off by " << got - want << " of " << tolerance;
}

constexpr double kEps = 5.97e-8;  // half a unit in the last place of 1

// f(kernels) for every instruction set of this machine.
template <class Function> void each_isa(Function function) {
  for (const Kernels* const* k = all_kernels(); *k != nullptr; ++k) {
    SCOPED_TRACE((*k)->isa);
    function(**k);
    if (testing::Test::HasFatalFailure()) return;
  }
}

// A window, and an image that it fits into.
inline Window random_window(Random& random, int64_t& height, int64_t& width, int64_t& out_height, int64_t& out_width) {
  Window w;
  for (;;) {
    for (int d : {0, 1}) {
      w.kernel[d] = random.integer(1, 5);
      w.stride[d] = random.integer(1, 3);
      w.padding[d] = random.integer(0, 3);
      w.dilation[d] = random.chance(0.7) ? 1 : 2;
    }
    height = random.integer(1, 20);
    width = random.some_size();
    out_height = (height + 2 * w.padding[0] - w.dilation[0] * (w.kernel[0] - 1) - 1) / w.stride[0] + 1;
    out_width = (width + 2 * w.padding[1] - w.dilation[1] * (w.kernel[1] - 1) - 1) / w.stride[1] + 1;
    if (height + 2 * w.padding[0] > w.dilation[0] * (w.kernel[0] - 1) &&
        width + 2 * w.padding[1] > w.dilation[1] * (w.kernel[1] - 1))
      return w;
  }
}

// Calls f(y, x, inside) for each place of the window at output (oh, ow).
template <class Function> void each_place(const Window& w, int64_t height, int64_t width, int64_t oh, int64_t ow, Function f) {
  for (int64_t kh = 0; kh < w.kernel[0]; ++kh)
    for (int64_t kw = 0; kw < w.kernel[1]; ++kw) {
      const int64_t y = oh * w.stride[0] - w.padding[0] + kh * w.dilation[0],
                    x = ow * w.stride[1] - w.padding[1] + kw * w.dilation[1];
      f(y, x, y >= 0 && y < height && x >= 0 && x < width, kh * w.kernel[1] + kw);
    }
}

// f(kernels) for every instruction set of this machine, and for the model of AMX.
template <class Function> void each_isa_and_model(Function function) {
  each_isa(function);
  if (testing::Test::HasFatalFailure()) return;
  SCOPED_TRACE(amx_model_kernels().isa);
  function(amx_model_kernels());
}

// What an epilogue may apply, in f64.
inline double value_of(Unary f, double x, double p, double q) {
  switch (f) {
    case Unary::identity: return x;
    case Unary::relu: return std::isnan(x) ? x : std::max(x, 0.0);
    case Unary::gelu: return 0.5 * x * (1 + std::erf(x * std::sqrt(0.5)));
    case Unary::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Unary::silu: return x / (1 + std::exp(-x));
    case Unary::tanh: return std::tanh(x);
    case Unary::sigmoid: return 1 / (1 + std::exp(-x));
    case Unary::clamp: return std::isnan(x) ? x : std::min(std::max(x, p), q);
    case Unary::hardswish: return x * std::min(std::max(x + 3, 0.0), 6.0) / 6;
    case Unary::quick_gelu: return x / (1 + std::exp(-1.702 * x));
    case Unary::square: return x * x;
    default: ADD_FAILURE(); return 0;
  }
}
constexpr Unary kActivations[] = {Unary::identity, Unary::relu,  Unary::gelu,      Unary::gelu_tanh,  Unary::silu,  Unary::tanh,
                                  Unary::sigmoid,  Unary::clamp, Unary::hardswish, Unary::quick_gelu, Unary::square};

}  // namespace pycandle::cpu
