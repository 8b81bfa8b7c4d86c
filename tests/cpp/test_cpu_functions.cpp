// Functions of one and two numbers and their errors, and which instruction set is chosen.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/error.h"
#include "kernel_cases.h"

namespace pycandle::cpu {
namespace {

struct Exact {
  Unary f;
  double (*value)(double);
  double units;  // of the last place, allowed
};
double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }
constexpr Exact kExact[] = {
    {Unary::neg, [](double x) { return -x; }, 0},
    {Unary::abs, [](double x) { return std::fabs(x); }, 0},
    {Unary::square, [](double x) { return x * x; }, 0.5},
    {Unary::sqrt, [](double x) { return std::sqrt(x); }, 0.5},
    {Unary::rsqrt, [](double x) { return 1 / std::sqrt(x); }, 1.5},
    {Unary::reciprocal, [](double x) { return 1 / x; }, 0.5},
    {Unary::ceil, [](double x) { return std::ceil(x); }, 0},
    {Unary::floor, [](double x) { return std::floor(x); }, 0},
    {Unary::round, [](double x) { return std::nearbyint(x); }, 0},
    {Unary::trunc, [](double x) { return std::trunc(x); }, 0},
    {Unary::exp, [](double x) { return std::exp(x); }, 2},
    {Unary::exp2, [](double x) { return std::exp2(x); }, 2},
    {Unary::log, [](double x) { return std::log(x); }, 3},
    {Unary::log2, [](double x) { return std::log2(x); }, 3},
    {Unary::log10, [](double x) { return std::log10(x); }, 3},
    {Unary::sin, [](double x) { return std::sin(x); }, 2},
    {Unary::cos, [](double x) { return std::cos(x); }, 2},
    {Unary::tanh, [](double x) { return std::tanh(x); }, 2},
    {Unary::erf, [](double x) { return std::erf(x); }, 3},
    {Unary::sigmoid, sigmoid_of, 4},
    {Unary::relu, [](double x) { return std::isnan(x) ? x : std::max(x, 0.0); }, 0},
    {Unary::expm1, [](double x) { return std::expm1(x); }, 2},
    {Unary::log1p, [](double x) { return std::log1p(x); }, 2},
    {Unary::atan, [](double x) { return std::atan(x); }, 2},
};

// How far apart, in units of the last place of `want` as a float.
double units_between(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e30;
  const auto nearest = static_cast<float>(want);
  if (std::isinf(nearest) || std::isinf(got)) return got == nearest || std::fabs(want) > 3.402e38 ? 0 : 1e30;
  int exponent = 0;
  std::frexp(nearest == 0 ? 1e-45f : nearest, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

TEST(UnaryFunctions, AreWithinTheirStatedError) {
  std::vector<float> x;
  for (uint32_t bits = 0; bits < 0x80000000u; bits += 39916801u / 64)  // all exponents, both signs
    for (const uint32_t sign : {0u, 0x80000000u}) {
      const uint32_t all = bits | sign;
      float v = 0;
      std::memcpy(&v, &all, 4);
      x.push_back(v);
    }
  for (int i = -40000; i < 40000; ++i) x.push_back(static_cast<float>(i) * 0.0031f);
  for (int i = 1; i < 20000; ++i) x.push_back(1 + static_cast<float>(i - 10000) * 2e-6f);
  for (const float v : {0.0f, -0.0f, kInf, -kInf, kNan, 1e-40f, 88.72f, 88.73f, -87.4f, -103.9f, -104.1f, 0.625f, 1.0f, 3.999f,
                        4.001f, 8.0f, 1024.0f})
    x.push_back(v);
  std::vector<float> out(x.size());
  each_isa([&](const Kernels& k) {
    for (const Exact& exact : kExact) {
      k.unary[static_cast<int>(exact.f)](x.data(), out.data(), static_cast<int64_t>(x.size()), 0, 0);
      const double allowed = exact.units + (std::string(k.isa) == "portable" && exact.units > 1 ? 1 : 0);
      double worst = 0;
      float at = 0;
      for (size_t i = 0; i < x.size(); ++i) {
        const double off = units_between(out[i], exact.value(x[i]));
        if (off > worst) {
          worst = off;
          at = x[i];
        }
      }
      EXPECT_LE(worst, allowed) << name_of(exact.f) << " of " << at;
    }
  });
}

// Activations whose value is x times a share of it: right to a few roundings of x.
TEST(UnaryFunctions, ActivationsAreRightToAFewRoundingsOfTheirArgument) {
  const Exact activations[] = {
      {Unary::gelu, [](double x) { return x * std::erfc(-x * std::sqrt(0.5)) / 2; }, 0},
      {Unary::gelu_tanh, [](double x) { return x * sigmoid_of(2 * std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)); }, 0},
      {Unary::silu, [](double x) { return x * sigmoid_of(x); }, 0},
      {Unary::quick_gelu, [](double x) { return x * sigmoid_of(1.702 * x); }, 0},
      {Unary::mish, [](double x) { return x * std::tanh(std::log1p(std::exp(x))); }, 0},
      {Unary::hardswish, [](double x) { return x * std::min(std::max(x + 3, 0.0), 6.0) / 6; }, 0},
      {Unary::log_sigmoid, [](double x) { return -std::log1p(std::exp(-x)); }, 0},
      {Unary::softplus1, [](double x) { return std::log1p(std::exp(x)); }, 0},
  };
  std::vector<float> x;
  for (int i = -60000; i <= 60000; ++i) x.push_back(static_cast<float>(i) * 0.0005f);
  std::vector<float> out(x.size());
  each_isa([&](const Kernels& k) {
    for (const Exact& exact : activations) {
      k.unary[static_cast<int>(exact.f)](x.data(), out.data(), static_cast<int64_t>(x.size()), 0, 0);
      for (size_t i = 0; i < x.size(); ++i) {
        const double want = exact.value(x[i]);
        ASSERT_NEAR(out[i], want, 3e-7 * std::max(std::fabs(want), 0.25 * std::fabs(x[i])) + 1e-9)
            << name_of(exact.f) << " of " << x[i];
      }
    }
  });
}

TEST(UnaryFunctions, DoNotDependOnWhereTheVectorEnds) {
  Random random(18);
  each_isa([&](const Kernels& k) {
    for (int f = 0; f < static_cast<int>(Unary::count); ++f)
      for (int i = 0; i < 6; ++i) {
        const Guarded<float> x = numbers(random, random.size(), 0.1);
        Guarded<float> out(random, x.size());
        k.unary[f](x.data(), out.data(), x.size(), 0.5f, 0.75f);
        ASSERT_TRUE(out.intact());
        for (int64_t j = 0; j < x.size(); ++j) {
          float alone = 0;
          k.unary[f](&x[j], &alone, 1, 0.5f, 0.75f);
          ASSERT_TRUE(alone == out[j] || (std::isnan(alone) && std::isnan(out[j])))
              << name_of(static_cast<Unary>(f)) << " of " << x[j];
        }
      }
  });
}

// ---- functions of two and three

TEST(BinaryFunctions, AgreeWithALoopForVectorsAndScalars) {
  Random random(19);
  each_isa([&](const Kernels& k) {
    for (int i = 0; i < 600; ++i) {
      const int64_t n = random.size(), a_step = random.integer(0, 1), b_step = random.integer(0, 1),
                    c_step = random.integer(0, 1);
      const Guarded<float> a = numbers(random, std::max<int64_t>(n, 1), 0.1), b = numbers(random, std::max<int64_t>(n, 1), 0.1),
                           c = numbers(random, std::max<int64_t>(n, 1));
      Guarded<uint8_t> truth(random, std::max<int64_t>(n, 1)), flags(random, n);
      for (int64_t j = 0; j < truth.size(); ++j) truth[j] = random.chance(0.5);
      Guarded<float> out(random, n);
      const auto same = [](float x, float y) { return x == y || (std::isnan(x) && std::isnan(y)); };
      for (int f = 0; f < static_cast<int>(Binary::count); ++f) {
        k.binary[f](a.data(), a_step, b.data(), b_step, out.data(), n);
        ASSERT_TRUE(out.intact());
        for (int64_t j = 0; j < n; ++j) {
          const float x = a[j * a_step], y = b[j * b_step];
          const bool nan = std::isnan(x) || std::isnan(y);
          const float want[] = {x + y,
                                x - y,
                                x * y,
                                x / y,
                                nan ? kNan : std::max(x, y),
                                nan ? kNan : std::min(x, y),
                                std::pow(x, y),
                                std::atan2(x, y),
                                std::fmod(x, y)};
          ASSERT_TRUE(same(out[j], want[f]))
              << name_of(static_cast<Binary>(f)) << " of " << x << " and " << y << " is " << out[j];
        }
      }
      for (int f = 0; f < static_cast<int>(Compare::count); ++f) {
        k.compare[f](a.data(), a_step, b.data(), b_step, flags.data(), n);
        ASSERT_TRUE(flags.intact());
        for (int64_t j = 0; j < n; ++j) {
          const float x = a[j * a_step], y = b[j * b_step];
          const bool want[] = {x == y, x != y, x<y, x <= y, x> y, x >= y};
          ASSERT_EQ(flags[j], want[f] ? 1 : 0) << name_of(static_cast<Compare>(f)) << " of " << x << " and " << y;
        }
      }
      k.select(truth.data(), c_step, a.data(), a_step, b.data(), b_step, out.data(), n);
      for (int64_t j = 0; j < n; ++j) ASSERT_TRUE(same(out[j], truth[j * c_step] != 0 ? a[j * a_step] : b[j * b_step]));
      k.mul_add(a.data(), a_step, b.data(), b_step, c.data(), c_step, out.data(), n);
      for (int64_t j = 0; j < n; ++j) {
        const volatile float product = a[j * a_step] * b[j * b_step];
        ASSERT_TRUE(same(out[j], product + c[j * c_step]));
      }
    }
  });
}

TEST(Dispatch, OffersPortableLastAndTheChosenOneIsAmongThem) {
  std::vector<std::string> names;
  for (const Kernels* const* k = all_kernels(); *k != nullptr; ++k) names.emplace_back((*k)->isa);
  ASSERT_FALSE(names.empty());
  EXPECT_EQ(names.back(), "portable");
  const char* wish = std::getenv("PYCANDLE_ISA");
  EXPECT_EQ(kernels().isa, wish != nullptr && *wish != '\0' ? std::string(wish) : names.front());
}

// In a process of its own, where nothing has been chosen yet.
TEST(DispatchDeathTest, RefusesAnInstructionSetThatItDoesNotKnow) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto choose = [] {
    ::setenv("PYCANDLE_ISA", "mmx", 1);
    try {
      kernels();
    } catch (const Error& error) {
      std::fputs(error.what(), stderr);
      std::exit(error.code() == ErrorCode::usage ? 7 : 1);
    }
    std::exit(0);
  };
  EXPECT_EXIT(choose(), testing::ExitedWithCode(7), "PYCANDLE_ISA");
}

}  // namespace
}  // namespace pycandle::cpu
