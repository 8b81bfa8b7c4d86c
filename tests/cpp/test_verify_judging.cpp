// What one RMS for a whole tensor, or one unit roundoff of a half dtype, would let pass.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "verify/judging/groups.h"
#include "verify/judging/half_precision.h"
#include "verify/judging/trials.h"

namespace pycandle {
namespace {

std::vector<double> normal(size_t count, uint32_t seed, double size = 1) {
  std::mt19937 generator(seed);
  std::normal_distribution<double> draw(0, size);
  std::vector<double> values(count);
  for (double& v : values) v = draw(generator);
  return values;
}

// The rounded run is the exact value, rounded; the golden is it with a change.
Judgement judged(DType dtype, const Sizes& shape, std::vector<double> exact,
                 const std::function<double(size_t, double)>& change) {
  Evidence e;
  e.f64 = store(DType::f64, shape, exact);
  e.rounded = store(dtype, shape, exact);
  for (size_t i = 0; i < exact.size(); ++i) exact[i] = change(i, exact[i]);
  e.golden = store(dtype, shape, exact);
  return judge_program(e);
}

std::vector<double> with_outlier_channel(size_t rows, size_t width, double size) {
  std::vector<double> values = normal(rows * width, 1);
  for (size_t row = 0; row < rows; ++row) values[row * width + 5] *= size;
  return values;
}

TEST(Groups, AreEveryIndexOfEveryAxisAndEveryRow) {
  const std::vector<Grouping> groupings = groupings_of({2, 3, 4});
  ASSERT_EQ(groupings.size(), 4u);
  EXPECT_EQ(groupings[0].group_of(4 + 2), 2u) << "the channel";
  EXPECT_EQ(groupings[1].name_of(groupings[1].group_of(12 + 4)), "in row 4");
  EXPECT_EQ(groupings[2].group_of(12 + 4), 1u);
  EXPECT_EQ(groupings[3].name_of(groupings[3].group_of(12 + 4)), "at index 1 of axis 0");
  EXPECT_TRUE(groupings_of({7}).empty()) << "each element alone is no group";
  EXPECT_TRUE(groupings_of({}).empty());
  EXPECT_TRUE(groupings_of({0, 4}).empty());
}

TEST(Groups, OfSimilarSizeAreFarBelowOneAnother) {
  std::vector<double> values = normal(64, 3);
  EXPECT_EQ(levels_of(values, std::vector<bool>(64, true)).size(), 1u);
  values[0] = 1e6;
  const auto levels = levels_of(values, std::vector<bool>(64, true));
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_TRUE(levels[0][0]);
  EXPECT_FALSE(levels[1][0]);
  EXPECT_TRUE(levels[1][1]);
}

TEST(Judge, AnOutlierChannelHidesNoErrorOfTheOthers) {
  const std::vector<double> exact = with_outlier_channel(16, 64, 100);
  const auto off = [](size_t i, double v) { return i % 64 == 7 ? 1.03 * v : v; };
  EXPECT_TRUE(judged(DType::bf16, {16, 64}, exact, [](size_t, double v) { return v; }).passed);
  const Judgement j = judged(DType::bf16, {16, 64}, exact, off);
  EXPECT_FALSE(j.passed);
  EXPECT_NE(j.why.find("at index 7 of axis 1"), std::string::npos) << j.why;
}

TEST(Judge, ARowOfLargeNumbersHidesNoErrorOfTheOthers) {
  std::vector<double> exact = normal(2 * 8 * 16, 2);
  for (size_t i = 0; i < 16; ++i) exact[i] *= 1e20;
  EXPECT_FALSE(judged(DType::f32, {2, 8, 16}, exact, [](size_t i, double v) { return i / 16 == 9 ? 1.0001 * v : v; }).passed);
}

// Behind a ReLU: rows in which one element is not zero.
TEST(Judge, LargeNumbersOfF16ErrLikeAnyOther) {
  Evidence e;
  e.f64 = store(DType::f64, {2, 2}, std::vector<double>{1, 2, 20000, 3});
  e.rounded = store(DType::f16, {2, 2}, std::vector<double>{1, 2, 20368, 3});
  e.golden = e.rounded;
  EXPECT_TRUE(judge_program(e).passed) << "a quarter of the range and more; this program rounds on the way";
  e.golden = store(DType::f16, {2, 2}, std::vector<double>{1, 2, 27008, 3});
  EXPECT_FALSE(judge_program(e).passed);
}

TEST(Judge, OneOfManyRowsOfOneElementMayBeFurtherOff) {
  constexpr size_t kRows = 16384, kWidth = 32;
  std::vector<double> exact(kRows * kWidth);
  for (size_t row = 0; row < kRows; ++row) exact[row * kWidth + row % kWidth] = 1 + 0.7 * static_cast<double>(row) / kRows;
  const auto one_off = [&](double roundings) {
    return judged(DType::f32, {1, kRows, kWidth}, exact,
                  [=](size_t i, double v) { return i == 7 * kWidth + 7 ? v * (1 + roundings * unit_roundoff(DType::f32)) : v; });
  };
  EXPECT_TRUE(one_off(12).passed) << one_off(12).why;
  EXPECT_FALSE(one_off(64).passed);
  const auto all_off = [](size_t i, double v) { return i / kWidth == 7 ? v * (1 + 12 * unit_roundoff(DType::f32)) : v; };
  EXPECT_FALSE(judged(DType::f32, {1, 64, kWidth}, normal(64 * kWidth, 5), all_off).passed) << "a row of many elements";
}

TEST(Judge, LargeElementsHereAndThereHideNoErrorOfTheOthers) {
  std::vector<double> exact = normal(256, 4);
  for (size_t i = 0; i < 256; i += 17) exact[i] *= 1e30;
  const auto off = [&](size_t, double v) { return std::abs(v) < 100 ? 5 * v : v; };
  EXPECT_TRUE(judged(DType::f32, {256}, exact, [](size_t, double v) { return v; }).passed);
  EXPECT_FALSE(judged(DType::f32, {256}, exact, off).passed);
}

// ---- trials

Program parsed(const std::string& body) { return parse_program("ptir.v1 program \"test\"\n\n" + body, catalogue()); }

Judgement tried(const std::string& body, const std::vector<Array>& inputs, const Array& golden) {
  const Trials trials(catalogue(), memory_parameters({}), {});
  Evidence e;
  e.golden = golden;
  return trials.judge(parsed(body), inputs, e);
}

// x @ w in f32, added one after another.
std::vector<double> product(const std::vector<double>& x, const std::vector<double>& w, size_t n, size_t width) {
  std::vector<double> y;
  for (size_t row = 0; row < x.size() / n; ++row) {
    for (size_t col = 0; col < width; ++col) {
      float sum = 0;
      for (size_t i = 0; i < n; ++i) sum += static_cast<float>(x[row * n + i]) * static_cast<float>(w[i * width + col]);
      y.push_back(sum);
    }
  }
  return y;
}

double rounded_to_bits(double v, int bits) {
  int exponent = 0;
  const double mantissa = std::frexp(v, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(mantissa, bits)), exponent - bits);
}

Judgement judged_product(int64_t n, const std::function<double(size_t, double)>& change) {
  constexpr int64_t kRows = 4, kCols = 24;
  const Array x = store(DType::f32, {kRows, n}, normal(kRows * n, 5)), w = store(DType::f32, {n, kCols}, normal(n * kCols, 6));
  std::vector<double> changed = load_double(w);
  for (size_t i = 0; i < changed.size(); ++i) changed[i] = change(i, changed[i]);
  const Array golden = store(DType::f32, {kRows, kCols}, product(load_double(x), changed, n, kCols));
  const std::string body = fmt::format(
      "input %0 \"x\": f32[4, {0}]\ninput %1 \"w\": f32[{0}, 24]\n\n%2 = matmul(%0, %1): f32[4, 24]\n\noutput \"output\" %2\n",
      n);
  return tried(body, {x, w}, golden);
}

TEST(LongSums, AreRightInAnyOrderAndWithOtherWeightsWrong) {
  for (int64_t n : {256, 1024, 8192}) {
    EXPECT_TRUE(judged_product(n, [](size_t, double v) { return v; }).passed) << n;
    EXPECT_FALSE(judged_product(n, [](size_t, double v) { return rounded_to_bits(v, 14); }).passed) << n;
    EXPECT_FALSE(judged_product(n, [](size_t, double v) { return 1.00003 * v; }).passed) << n;
    EXPECT_FALSE(judged_product(n, [](size_t i, double v) { return i % 24 == 3 ? 1.0001 * v : v; }).passed) << n;
  }
  for (int64_t n : {256, 1024})
    EXPECT_FALSE(judged_product(n, [](size_t, double v) { return rounded_to_bits(v, 16); }).passed) << n;
}

// A large bias, and torch begins the sum with it: every partial sum rounds as the bias does.
TEST(LongSums, MayBeginWithTheBias) {
  constexpr int64_t kTerms = 512, kRows = 4, kCols = 24;
  const Array x = store(DType::f32, {kRows, kTerms}, normal(kRows * kTerms, 14, 0.01)),
              w = store(DType::f32, {kCols, kTerms}, normal(kCols * kTerms, 15, 0.1)),
              bias = store(DType::f32, {kCols}, std::vector<double>(kCols, 1.01));
  const std::vector<double> xs = load_double(x), ws = load_double(w);
  const auto judged_with = [&](float first) {
    std::vector<double> y;
    for (size_t i = 0; i < kRows * kCols; ++i) {
      float sum = first;
      for (size_t k = 0; k < kTerms; ++k)
        sum += static_cast<float>(xs[i / kCols * kTerms + k]) * static_cast<float>(ws[i % kCols * kTerms + k]);
      y.push_back(sum);
    }
    return tried(
        "input %0 \"x\": f32[4, 512]\ninput %1 \"w\": f32[24, 512]\ninput %2 \"b\": f32[24]\n\n"
        "%3 = linear(%0, %1, %2): f32[4, 24]\n\noutput \"output\" %3\n",
        {x, w, bias}, store(DType::f32, {kRows, kCols}, y));
  };
  const Judgement right = judged_with(1.01F);
  EXPECT_TRUE(right.passed) << right.why;
  EXPECT_FALSE(judged_with(1.01F * 1.00003F).passed);
}

// Convolutions of 3x3 windows over pictures of 64 channels, whose golden is computed with changed weights and then moved.
struct Pictures {
  int64_t batch, side;
  size_t places() const { return static_cast<size_t>(batch * side * side); }
};
Judgement judged_convolution(const Pictures& p, const std::vector<double>& values, const std::function<double(double)>& of_weight,
                             const std::function<double(size_t, double)>& moved) {
  const Sizes from{p.batch, 64, p.side, p.side}, to{p.batch, 16, p.side, p.side};
  const std::string body = fmt::format(
      "input %0 \"x\": f32{}\ninput %1 \"w\": f32[16, 64, 3, 3]\n\n%2 = convolution(%0, %1) {{strides = [1, 1], "
      "padding_low = [1, 1], padding_high = [1, 1], dilation = [1, 1], input_dilation = [1, 1], groups = 1}}: f32{}\n\n"
      "output \"output\" %2\n",
      to_string(from), to_string(to));
  const Array x = store(DType::f32, from, values), w = store(DType::f32, {16, 64, 3, 3}, normal(16 * 64 * 9, 8));
  std::vector<double> changed = load_double(w);
  for (double& v : changed) v = of_weight(v);
  const Trials trials(catalogue(), memory_parameters({}), {});
  std::vector<double> golden = load_double(trials.rounded(parsed(body), {x, store(DType::f32, w.shape(), changed)}));
  for (size_t i = 0; i < golden.size(); ++i) golden[i] = moved(i, golden[i]);
  return tried(body, {x, w}, store(DType::f32, to, golden));
}

constexpr double kLargeError = 1e-4;  // some ten floors
double same_weight(double v) { return v; }
double unmoved(size_t, double v) { return v; }

TEST(Convolutions, OfManyPicturesMayErrByMoreThanTheirTermsButNotAsOtherWeightsDo) {
  const Pictures many{16, 3};
  const std::vector<double> noise = normal(16 * many.places(), 9), values = normal(64 * many.places(), 7);
  EXPECT_TRUE(judged_convolution(many, values, same_weight, unmoved).passed);
  const auto noisy = [&](size_t i, double v) { return v + kLargeError * noise[i]; };
  EXPECT_TRUE(judged_convolution(many, values, same_weight, noisy).passed);
  for (const int bits : {12, 14, 16}) {
    const Judgement j = judged_convolution(many, values, [=](double v) { return rounded_to_bits(v, bits); }, unmoved);
    EXPECT_FALSE(j.passed) << bits;
  }
  const Judgement little = judged_convolution(many, values, [](double v) { return rounded_to_bits(v, 16); }, unmoved);
  EXPECT_NE(little.why.find("as other weights would make it"), std::string::npos) << little.why;
  // Where windows are the same, so are their roundings; those of the border have fewer elements.
  const std::vector<double> level(64 * many.places(), 0.7);
  const auto alike = [&](size_t i, double v) {
    const bool is_centre = i % 9 == 4;
    return v + kLargeError * noise[is_centre ? i / 9 % 16 : i];
  };
  EXPECT_TRUE(judged_convolution(many, level, same_weight, alike).passed);
}

// PyTorch computes these one term after another: even nine places show weights that are rounded to 16 bits.
TEST(Convolutions, OfFewPicturesErrAsProductsDo) {
  for (const Pictures few : {Pictures{1, 3}, Pictures{1, 9}, Pictures{3, 4}}) {
    const std::vector<double> noise = normal(16 * few.places(), 9), values = normal(64 * few.places(), 7);
    EXPECT_TRUE(judged_convolution(few, values, same_weight, unmoved).passed);
    const auto noisy = [&](size_t i, double v) { return v + kLargeError * noise[i]; };
    EXPECT_FALSE(judged_convolution(few, values, same_weight, noisy).passed) << few.side;
    for (const int bits : {12, 14, 16}) {
      const Judgement j = judged_convolution(few, values, [=](double v) { return rounded_to_bits(v, bits); }, unmoved);
      EXPECT_FALSE(j.passed) << few.side << " " << bits;
    }
  }
}

TEST(LongSums, OfEqualTermsMayErrAsOneAfterAnotherDoes) {
  const Array x = store(DType::f32, {2, 128}, std::vector<double>(256, 0.1));
  float sum = 0;
  for (int i = 0; i < 128; ++i) sum += 0.1f;
  const Array golden = store(DType::f32, {2}, std::vector<double>(2, sum));
  EXPECT_TRUE(
      tried("input %0 \"x\": f32[2, 128]\n\n%1 = reduce_sum(%0) {axes = [1]}: f32[2]\n\noutput \"output\" %1\n", {x}, golden)
          .passed);
}

// ---- f16 and bf16

const char* const kResidual = R"(input %0 "x": bf16[32, 64]
input %1 "m": bf16[32, 64]

%2 = add(%0, %1): bf16[32, 64]

output "output" %2
)";

Judgement judged_residual(const std::function<double(size_t, double, double)>& sum) {
  const Sizes shape{32, 64};
  const Array x = store(DType::bf16, shape, normal(2048, 7)), m = store(DType::bf16, shape, normal(2048, 8, 0.2));
  const std::vector<double> xs = load_double(x), ms = load_double(m);
  std::vector<double> y;
  for (size_t i = 0; i < xs.size(); ++i) y.push_back(sum(i, xs[i], ms[i]));
  return tried(kResidual, {x, m}, store(DType::bf16, shape, y));
}

TEST(HalfPrecision, WhatIsFarBelowTheUnitRoundoffIsFound) {
  EXPECT_TRUE(judged_residual([](size_t, double x, double m) { return x + m; }).passed);
  EXPECT_FALSE(judged_residual([](size_t, double x, double m) { return x + 0.99 * m; }).passed);
  EXPECT_FALSE(judged_residual([](size_t i, double x, double m) { return i % 64 == 9 ? 1.004 * (x + m) : x + m; }).passed);
}

TEST(HalfPrecision, AnElementThatRoundsTheOtherWayIsRight) {
  EXPECT_TRUE(judged_residual([](size_t i, double x, double m) { return i % 500 == 3 ? (x + m) * 1.004 : x + m; }).passed);
}

// x + sin(x)² / alpha as a model writes it, rounded after each op. The program multiplies by 1 / alpha.
Judgement judged_snake(DType dtype, double factor) {
  const Sizes shape{32, 64};
  const auto round = [&](double v) { return load_double(store(dtype, Sizes{1}, std::vector<double>{v}))[0]; };
  const Array x = store(dtype, shape, normal(2048, 10)), alpha = store(dtype, {64}, normal(64, 11));
  const std::vector<double> xs = load_double(x), alphas = load_double(alpha);
  std::vector<double> y;
  for (size_t i = 0; i < xs.size(); ++i) {
    const double sine = round(std::sin(round(xs[i] * alphas[i % 64])));
    y.push_back(xs[i] + round(factor * round(sine * sine) / alphas[i % 64]));
  }
  std::string program =
      "input %0 \"x\": D[32, 64]\ninput %1 \"alpha\": D[64]\n\n%2 = snake(%0, %1, _): D[32, 64]\n\noutput \"output\" %2\n";
  for (size_t at = program.find('D'); at != std::string::npos; at = program.find('D')) program.replace(at, 1, name_of(dtype));
  return tried(program, {x, alpha}, store(dtype, shape, y));
}

TEST(HalfPrecision, AnOpThatPeopleWriteOutMayRoundAsAnyOfItsSpellings) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    const Judgement right = judged_snake(dtype, 1);
    EXPECT_TRUE(right.passed) << right.why;
    EXPECT_FALSE(judged_snake(dtype, 0.99).passed);
  }
}

Judgement judged_as_another(const std::string& right, const std::string& wrong, const std::vector<Array>& inputs) {
  const Trials trials(catalogue(), memory_parameters({}), {});
  const Array golden = trials.rounded(parsed(right), inputs);
  EXPECT_TRUE(tried(right, inputs, golden).passed);
  return tried(wrong, inputs, golden);
}

// Every kernel on the way rounds once, so the last of several still says whether the first was right.
TEST(HalfPrecision, AttentionWrittenByHandShowsAScaleThatIsOnePercentOff) {
  const auto attention = [](double scale) {
    return fmt::format(
        "input %0 \"q\": bf16[2, 12, 16]\ninput %1 \"k\": bf16[2, 16, 12]\ninput %2 \"v\": bf16[2, 12, 16]\n\n"
        "%3 = matmul(%0, %1): bf16[2, 12, 12]\n%4 = constant() {{value = {}, shape = [], dtype = bf16}}: bf16[]\n"
        "%5 = broadcast(%4) {{shape = [2, 12, 12], axes = []}}: bf16[2, 12, 12]\n%6 = mul(%3, %5): bf16[2, 12, 12]\n"
        "%7 = softmax(%6) {{dim = -1}}: bf16[2, 12, 12]\n%8 = matmul(%7, %2): bf16[2, 12, 16]\n\noutput \"output\" %8\n",
        scale);
  };
  std::vector<Array> inputs;
  for (const Sizes& shape : {Sizes{2, 12, 16}, Sizes{2, 16, 12}, Sizes{2, 12, 16}})
    inputs.push_back(store(DType::bf16, shape, normal(384, static_cast<unsigned>(inputs.size()) + 21)));
  EXPECT_FALSE(judged_as_another(attention(0.25), attention(0.2525), inputs).passed);
}

// The two forms differ by less than one rounding of bf16, in some percent of the elements.
TEST(HalfPrecision, TheOtherFormOfGeluIsNoRounding) {
  const auto gelu = [](const char* form) {
    return fmt::format(
        "input %0 \"x\": bf16[3, 14, 48]\n\n%1 = gelu(%0) {{approximate = \"{}\"}}: bf16[3, 14, 48]\n\n"
        "output \"output\" %1\n",
        form);
  };
  const Array x = store(DType::bf16, {3, 14, 48}, normal(2016, 31));
  EXPECT_FALSE(judged_as_another(gelu("none"), gelu("tanh"), {x}).passed);
  EXPECT_FALSE(judged_as_another(gelu("tanh"), gelu("none"), {x}).passed);
}

// A transposed convolution of stride 1, rounded once; or as torch has it without oneDNN: each place of the kernel is rounded, and
// so is each sum. The kernel nearly cancels where neighbours are equal.
Judgement judged_transposed(DType dtype, double jump, bool rounds_once, double factor = 1) {
  constexpr size_t kLength = 64;
  const std::vector<double> kernel{1, -1.01, 0.5, -0.495};
  const auto round = [&](double v) { return load_double(store(dtype, Sizes{1}, std::vector<double>{v}))[0]; };
  std::vector<double> xs = normal(kLength, 13, jump);
  for (double& x : xs) x += 1;
  const Array x = store(dtype, {1, 1, kLength}, xs), w = store(dtype, {1, 1, 4}, kernel);
  xs = load_double(x);
  const std::vector<double> ws = load_double(w);
  std::vector<double> y(kLength + 3);
  for (size_t place = 0; place < 4; ++place) {
    for (size_t i = 0; i < kLength; ++i) {
      const double part = factor * xs[i] * ws[place];
      y[i + place] = rounds_once ? y[i + place] + part : round(y[i + place] + round(part));
    }
  }
  std::string program =
      "input %0 \"x\": D[1, 1, 64]\ninput %1 \"w\": D[1, 1, 4]\n\n%2 = conv_transpose1d(%0, %1, _): D[1, 1, 67]\n\n"
      "output \"output\" %2\n";
  for (size_t at = program.find('D'); at != std::string::npos; at = program.find('D')) program.replace(at, 1, name_of(dtype));
  return tried(program, {x, w}, store(dtype, {1, 1, kLength + 3}, y));
}

TEST(HalfPrecision, ATransposedConvolutionMayRoundAfterEachPlaceOfItsKernel) {
  for (DType dtype : {DType::f16, DType::bf16}) {
    for (const double jump : {1e-2, 1.0}) {
      for (const bool rounds_once : {true, false}) {
        const Judgement right = judged_transposed(dtype, jump, rounds_once);
        EXPECT_TRUE(right.passed) << right.why;
      }
    }
    EXPECT_FALSE(judged_transposed(dtype, 1, /*rounds_once=*/true, 0.99).passed);
    EXPECT_FALSE(judged_transposed(dtype, 1, /*rounds_once=*/false, 0.98).passed);
  }
}

// Of nearly equal scores: the powers of e are just below 1, and all round up where torch's flash kernel rounds them.
Judgement judged_attention(bool rounds_powers, double factor = 1) {
  constexpr size_t kQueries = 256, kKeys = 4, kWidth = 8;
  const Array q = store(DType::f16, {1, 1, kQueries, kWidth}, normal(kQueries * kWidth, 16, 0.005)),
              k = store(DType::f16, {1, 1, kKeys, kWidth}, normal(kKeys * kWidth, 17, 0.005)),
              v = store(DType::f16, {1, 1, kKeys, kWidth}, normal(kKeys * kWidth, 18));
  const std::vector<double> qs = load_double(q), ks = load_double(k), vs = load_double(v);
  const auto round = [](double x) { return load_double(store(DType::f16, Sizes{1}, std::vector<double>{x}))[0]; };
  std::vector<double> y;
  for (size_t i = 0; i < kQueries; ++i) {
    std::vector<double> scores(kKeys), sums(kWidth);
    for (size_t j = 0; j < kKeys; ++j) {
      for (size_t d = 0; d < kWidth; ++d) scores[j] += qs[i * kWidth + d] * ks[j * kWidth + d] / std::sqrt(double{kWidth});
    }
    const double highest = *std::max_element(scores.begin(), scores.end());
    double all = 0;
    for (size_t j = 0; j < kKeys; ++j) {
      const double power = std::exp(scores[j] - highest);
      all += power;
      for (size_t d = 0; d < kWidth; ++d) sums[d] += (rounds_powers ? round(power) : power) * vs[j * kWidth + d];
    }
    for (double sum : sums) y.push_back(factor * sum / all);
  }
  return tried(
      "input %0 \"q\": f16[1, 1, 256, 8]\ninput %1 \"k\": f16[1, 1, 4, 8]\ninput %2 \"v\": f16[1, 1, 4, 8]\n\n"
      "%3 = scaled_dot_product_attention(%0, %1, %2, _, _, _, _): f16[1, 1, 256, 8]\n\noutput \"output\" %3\n",
      {q, k, v}, store(DType::f16, {1, 1, kQueries, kWidth}, y));
}

TEST(HalfPrecision, AttentionMayRoundThePowersAndNotTheirSum) {
  for (const bool rounds_powers : {false, true}) {
    const Judgement right = judged_attention(rounds_powers);
    EXPECT_TRUE(right.passed) << right.why;
    EXPECT_FALSE(judged_attention(rounds_powers, 1.001).passed);
  }
}

TEST(HalfPrecision, WhatOverflowsInBothIsNoCastThatTheModelLacks) {
  std::vector<double> values = normal(64, 12);
  values[5] = 1e6;
  const Array x = store(DType::f32, {64}, values);
  const Judgement j = tried("input %0 \"x\": f32[64]\n\n%1 = cast(%0) {dtype = f16}: f16[64]\n\noutput \"output\" %1\n", {x},
                            cast(x, DType::f16));
  EXPECT_TRUE(j.passed) << j.why;
}

// The same number of elements is off, in both directions or in one.
TEST(HalfPrecision, ADifferenceThatGoesWithTheValueIsNoRounding) {
  const auto judged_signs = [](const std::function<bool(size_t)>& is_up) {
    const Sizes shape{512};
    const std::vector<double> exact = normal(512, 9);
    Evidence e;
    e.f64 = store(DType::f64, shape, exact);
    e.rounded = store(DType::bf16, shape, exact);
    const std::vector<double> rounded = load_double(e.rounded);
    std::vector<double> golden, kernel;
    for (size_t i = 0; i < rounded.size(); ++i) {
      golden.push_back(i % 4 == 0 ? rounded[i] * (is_up(i) ? 1.008 : 0.992) : rounded[i]);
      kernel.push_back(i % 4 == 1 ? rounded[i] * (i / 4 % 2 == 1 ? 1.008 : 0.992) : rounded[i]);
    }
    e.golden = store(DType::bf16, shape, golden);
    e.as_kernels = {store(DType::bf16, shape, kernel)};
    return judge_as_kernels(e, Judgement{}).passed;
  };
  EXPECT_TRUE(judged_signs([](size_t i) { return i % 8 == 0; }));
  EXPECT_FALSE(judged_signs([](size_t) { return true; }));
}

}  // namespace
}  // namespace pycandle
