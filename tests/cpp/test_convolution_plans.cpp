// Convolutions of every kind, padding and reading at indices, as the cpu backend plans them, beside the reference.
#include <random>

#include "plan_cases.h"

namespace pycandle {
namespace {

struct Random {
  std::mt19937 engine;
  int64_t operator()(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
  bool chance(double p) { return std::bernoulli_distribution(p)(engine); }
};

std::string list(const Sizes& sizes) { return to_string(sizes); }

// A convolution with any attributes, and its result's sizes.
struct Case {
  std::string op;
  Sizes x, weight, y, stride, padding, dilation, more;
  int64_t groups;
  bool has_bias, is_transposed;

  std::string body(const char* after = "") const {
    return fmt::format(R"(input %0 "x": f32{}

parameter %1 "weight": f32{}
parameter %2 "bias": f32{}

%3 = {}(%0, %1, {}) {{stride = {}, padding = {}, {}dilation = {}, groups = {}}}: f32{}
{}
output "y" %3
)",
                       list(x), list(weight), list({is_transposed ? weight[1] * groups : weight[0]}), op, has_bias ? "%2" : "_",
                       list(stride), list(padding), is_transposed ? "output_padding = " + list(more) + ", " : "", list(dilation),
                       groups, list(y), after);
  }
  Weights weights() const {
    return {{"weight", numbers(DType::f32, weight, 2)},
            {"bias", numbers(DType::f32, {is_transposed ? weight[1] * groups : weight[0]}, 3)}};
  }
};

Case random_case(Random& random, size_t n, bool is_transposed) {
  Case c;
  c.is_transposed = is_transposed;
  c.op = fmt::format("conv{}{}d", is_transposed ? "_transpose" : "", n);
  c.groups = random.chance(0.6) ? 1 : random(2, 3);
  const bool is_depthwise = c.groups > 1 && random.chance(0.4);
  const int64_t own = is_depthwise ? 1 : random.chance(0.2) ? random(15, 18) : random(1, 5);
  const int64_t made = random.chance(0.2) ? random(15, 33) : random(1, 4), in = own * c.groups;
  if (random.chance(0.8)) c.x.push_back(random(1, 3));
  const int64_t batch = static_cast<int64_t>(c.x.size());
  c.x.push_back(in);
  c.weight = is_transposed ? Sizes{in, made} : Sizes{made * c.groups, own};
  c.y.assign(c.x.begin(), c.x.begin() + batch);
  c.y.push_back(made * c.groups);
  for (size_t i = 0; i < n; ++i) {
    const int64_t kernel = random(1, 4), stride = random(1, 3), dilation = random.chance(0.7) ? 1 : random(2, 3);
    const int64_t reach = dilation * (kernel - 1);
    int64_t size = random(1, 9), padding = random(0, 3), more = 0, out = 0;
    if (is_transposed) {
      more = random.chance(0.6) ? 0 : random(0, std::max(stride, dilation) - 1);
      while ((out = (size - 1) * stride - 2 * padding + reach + more + 1) < 1) ++size;
    } else {
      size = std::max(size, reach + 1 - 2 * padding);
      out = (size + 2 * padding - reach - 1) / stride + 1;
    }
    c.x.push_back(size);
    c.weight.push_back(kernel);
    c.stride.push_back(stride);
    c.dilation.push_back(dilation);
    c.padding.push_back(padding);
    c.more.push_back(more);
    c.y.push_back(out);
  }
  c.has_bias = random.chance(0.5);
  return c;
}

std::vector<std::string> evaluated(const Program& p, const Arrays& inputs, const Weights& weights) {
  std::vector<std::string> ops;
  const auto e = cpu_backend().compile(p, catalogue(), memory_parameters(weights));
  RunRequest request;
  request.inputs = inputs;
  request.on_step = [&](const StepTime& step) {
    if (std::string(step.kernel) == "evaluator") ops.emplace_back(step.op);
  };
  e->run(request);
  return ops;
}

// The first call reads weights where they lie, the second one packs them. Sums of a few terms may cancel.
void expect_sums(const Case& c) {
  const Program p = parsed(c.body());
  const auto source = memory_parameters(c.weights());
  RunRequest request;
  request.inputs = {numbers(DType::f32, c.x)};
  const std::vector<double> expected = load_double(reference_backend().compile(p, catalogue(), source)->run(request)[0]);
  double scale = 0;
  for (const double v : expected) scale = std::max(scale, std::abs(v));
  request.on_step = [](const StepTime& step) { EXPECT_NE(step.kernel, "evaluator") << step.op; };
  const auto executable = cpu_backend().compile(p, catalogue(), source);
  for (int turn = 0; turn < 2; ++turn) {
    const std::vector<double> got = load_double(executable->run(request)[0]);
    ASSERT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i)
      ASSERT_NEAR(got[i], expected[i], 2e-6 * (4 + scale)) << "element " << i << ", turn " << turn;
  }
}

TEST(ConvolutionPlan, EveryConvolutionAgreesAndLeavesNothingToTheEvaluator) {
  Random random{std::mt19937(7)};
  for (int i = 0; i < 4000 && !testing::Test::HasFailure(); ++i) {
    const Case c = random_case(random, static_cast<size_t>(1 + i % 3), i % 6 >= 3);
    SCOPED_TRACE(c.body());
    expect_sums(c);
  }
}

// As networks for telephones have it: what is between the two convolutions is not stored.
TEST(ConvolutionPlan, AnExpansionAndTheDepthwiseConvolutionAfterItAgree) {
  Random random{std::mt19937(11)};
  for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) {
    const int64_t in = random(1, 40), wide = random(66, 90), batch = random(1, 2), kernel = std::array{3, 5, 7, 2}[random(0, 3)];
    const int64_t stride = random(1, 2), padding = random(0, kernel / 2);
    const int64_t height = random(25, 50), width = 1100 / height + random(0, 9);  // large enough to be worth it
    const auto out = [&](int64_t size) { return (size + 2 * padding - kernel) / stride + 1; };
    const std::string between = list({batch, wide, height, width}), after = list({batch, wide, out(height), out(width)});
    const std::string body = fmt::format(R"(input %0 "x": f32{0}

parameter %1 "expand": f32{1}
parameter %2 "bias": f32[{2}]
parameter %3 "deep": f32{3}
parameter %4 "project": f32{4}

%5 = conv2d(%0, %1, %2): f32{5}
%6 = relu6(%5): f32{5}
%7 = conv2d(%6, %3, %2) {{stride = [{6}, {6}], padding = [{7}, {7}], groups = {2}}}: f32{8}
%8 = silu(%7): f32{8}
%9 = conv2d(%8, %4, _): f32{9}

output "y" %9
)",
                                         list({batch, in, height, width}), list({wide, in, 1, 1}), wide,
                                         list({wide, 1, kernel, kernel}), list({in, wide, 1, 1}), between, stride, padding, after,
                                         list({batch, in, out(height), out(width)}));
    SCOPED_TRACE(body);
    expect_as_reference(body, {numbers(DType::f32, {batch, in, height, width})},
                        {{"expand", numbers(DType::f32, {wide, in, 1, 1}, 2)},
                         {"bias", numbers(DType::f32, {wide}, 3)},
                         {"deep", numbers(DType::f32, {wide, 1, kernel, kernel}, 4)},
                         {"project", numbers(DType::f32, {in, wide, 1, 1}, 5)}});
  }
}

TEST(ConvolutionPlan, PoolsOfThreeAxesAgree) {
  Random random{std::mt19937(10)};
  for (int i = 0; i < 200 && !testing::Test::HasFatalFailure(); ++i) {
    const bool is_max = random.chance(0.6), is_one = random.chance(0.2);
    Sizes x{random(1, 2), random(1, 4)}, kernel, stride, padding, dilation, y;
    if (is_one) x.erase(x.begin());
    y = x;
    for (int a = 0; a < 3; ++a) {
      kernel.push_back(random(1, 3));
      stride.push_back(random(1, 3));
      padding.push_back(is_max ? random(0, kernel[a] / 2) : 0);
      dilation.push_back(is_max ? random(1, 2) : 1);
      const int64_t reach = dilation[a] * (kernel[a] - 1) + 1, size = std::max(random(1, 8), reach - 2 * padding[a]);
      x.push_back(size);
      y.push_back((size + 2 * padding[a] - reach) / stride[a] + 1);
    }
    const std::string body = fmt::format(
        "input %0 \"x\": f32{}\n\n%1 = {}(%0) {{kernel_size = {}, stride = {}, padding = {}{}}}: f32{}\n\noutput \"y\" %1\n",
        list(x), is_max ? "max_pool3d" : "avg_pool3d", list(kernel), list(stride), list(padding),
        is_max ? ", dilation = " + list(dilation) : "", list(y));
    SCOPED_TRACE(body);
    expect_as_reference(body, {numbers(DType::f32, x)});
    EXPECT_TRUE(evaluated(parsed(body), {numbers(DType::f32, x)}, {}).empty());
  }
}

// ConvNeXt's layer scale becomes a part of the weights from the second call on, where it belongs to the columns.
TEST(ConvolutionPlan, AScaleOfEachChannelAfterALayerAgrees) {
  for (const char* shape : {"[1, 24, 1, 1]", "[24, 1, 1]", "[1, 1, 6, 1]", "[1, 1, 1, 1]"}) {
    const bool is_three = std::string(shape) == "[24, 1, 1]";
    const std::string body = fmt::format(R"(input %0 "x": f32[2, 6, 5, 20]

parameter %1 "w": f32[24, 20]
parameter %2 "b": f32[24]
parameter %3 "scale": f32{}
parameter %4 "deep": f32[24, 1, 3, 3]

%5 = linear(%0, %1, %2): f32[2, 6, 5, 24]
%6 = transpose(%5) {{permutation = [0, 3, 1, 2]}}: f32[2, 24, 6, 5]
%7 = broadcast(%3) {{shape = [2, 24, 6, 5], axes = {}}}: f32[2, 24, 6, 5]
%8 = mul(%6, %7): f32[2, 24, 6, 5]
%9 = conv2d(%8, %4, _) {{padding = [1, 1], groups = 24}}: f32[2, 24, 6, 5]
%10 = add(%9, %8): f32[2, 24, 6, 5]

output "y" %10
)",
                                         shape, is_three ? "[1, 2, 3]" : "[0, 1, 2, 3]");
    SCOPED_TRACE(body);
    const Sizes sizes = is_three                                ? Sizes{24, 1, 1}
                        : std::string(shape) == "[1, 24, 1, 1]" ? Sizes{1, 24, 1, 1}
                        : std::string(shape) == "[1, 1, 6, 1]"  ? Sizes{1, 1, 6, 1}
                                                                : Sizes{1, 1, 1, 1};
    expect_as_reference(body, {numbers(DType::f32, {2, 6, 5, 20})},
                        {{"w", numbers(DType::f32, {24, 20}, 2)},
                         {"b", numbers(DType::f32, {24}, 3)},
                         {"scale", numbers(DType::f32, sizes, 4)},
                         {"deep", numbers(DType::f32, {24, 1, 3, 3}, 5)}});
  }
}

// A decoder's step: the sizes of the image are open, and what follows is folded in.
TEST(ConvolutionPlan, ATransposedConvolutionOfAnOpenSizeWithItsNormAgrees) {
  const std::string body = R"(symbol s0 in [1, 64] example 8 from "x" axis 2

input %0 "x": f32[2, 20, s0, 5]

parameter %1 "w": f32[20, 17, 4, 4]
parameter %2 "bias": f32[17]
parameter %3 "var": f32[17]

%4 = conv_transpose2d(%0, %1, %2) {stride = [2, 2], padding = [1, 1]}: f32[2, 17, 2*s0, 10]
%5 = batch_norm(%4, %2, %3, %2, %2) {eps = 1e-05}: f32[2, 17, 2*s0, 10]
%6 = relu(%5): f32[2, 17, 2*s0, 10]

output "y" %6
)";
  std::vector<double> variances(17, 0.5);
  for (const int64_t size : {1, 2, 7}) {
    expect_as_reference(body, {numbers(DType::f32, {2, 20, size, 5})},
                        {{"w", numbers(DType::f32, {20, 17, 4, 4}, 2)},
                         {"bias", numbers(DType::f32, {17}, 3)},
                         {"var", store(DType::f32, {17}, variances)}});
  }
}

TEST(IndexingPlan, PaddingOfEveryDtypeAgrees) {
  Random random{std::mt19937(8)};
  for (const DType dtype : {DType::f32, DType::f64, DType::i64, DType::f16, DType::u8}) {
    for (int i = 0; i < 60 && !testing::Test::HasFatalFailure(); ++i) {
      Sizes x, low, high, y;
      for (int64_t rank = random(1, 4), a = 0; a < rank; ++a) {
        x.push_back(random(0, 5));
        low.push_back(random.chance(0.5) ? 0 : random(-2, 3));
        high.push_back(random.chance(0.5) ? 0 : random(-2, 3));
        if (x[a] + low[a] + high[a] < 0) low[a] = high[a] = 0;
        y.push_back(x[a] + low[a] + high[a]);
      }
      const std::string body = fmt::format(R"(input %0 "x": {0}{1}

%1 = pad(%0) {{low = {2}, high = {3}, value = {5}}}: {0}{4}

output "y" %1
)",
                                           name_of(dtype), list(x), list(low), list(high), list(y),
                                           is_floating(dtype) ? "1.5" : "3");
      SCOPED_TRACE(body);
      expect_as_reference(body, {numbers(dtype, x)});
      EXPECT_TRUE(evaluated(parsed(body), {numbers(dtype, x)}, {}).empty());
    }
  }
}

Array random_indices(Random& random, DType dtype, Sizes sizes, int64_t size) {
  std::vector<double> values(static_cast<size_t>(element_count(sizes)));
  for (double& v : values) v = static_cast<double>(random(0, size - 1));
  return store(dtype, std::move(sizes), values);
}

TEST(IndexingPlan, TakeAndGatherAlongAnyAxisAgree) {
  Random random{std::mt19937(9)};
  for (int i = 0; i < 300 && !testing::Test::HasFatalFailure(); ++i) {
    const DType dtype = std::array{DType::f32, DType::i64, DType::f16, DType::boolean}[random(0, 3)];
    const DType of_index = random.chance(0.5) ? DType::i64 : DType::i32;
    Sizes x;
    for (int64_t rank = random(1, 4), a = 0; a < rank; ++a) x.push_back(random(1, 6));
    const int64_t axis = random(0, static_cast<int64_t>(x.size()) - 1);
    const bool is_gather = random.chance(0.5);
    Sizes indices = is_gather ? x : Sizes{random(1, 5)}, y = x;
    if (is_gather) {
      y[axis] = indices[axis] = random(1, 7);
    } else {
      if (random.chance(0.3)) indices.push_back(random(1, 3));
      y.erase(y.begin() + axis);
      y.insert(y.begin() + axis, indices.begin(), indices.end());
    }
    const std::string body = fmt::format(
        "input %0 \"x\": {}{}\ninput %1 \"i\": {}{}\n\n%2 = {}(%0, %1) {{axis = {}}}: {}{}\n\noutput \"y\" %2\n", name_of(dtype),
        list(x), name_of(of_index), list(indices), is_gather ? "gather" : "take", axis, name_of(dtype), list(y));
    SCOPED_TRACE(body);
    const Arrays inputs{numbers(dtype, x), random_indices(random, of_index, indices, x[axis])};
    expect_as_reference(body, inputs);
    EXPECT_TRUE(evaluated(parsed(body), inputs, {}).empty());
    const Array bad = store(of_index, indices, std::vector<double>(static_cast<size_t>(element_count(indices)), 100));
    EXPECT_THROW(run(*cpu_backend().compile(parsed(body), catalogue(), memory_parameters({})), {inputs[0], bad}), Error);
  }
}

// Some experts get no row, some rows no expert; weights as they are kept, or turned.
TEST(ExpertPlan, ProductsOfGroupsOfRowsAgree) {
  for (const bool is_turned : {false, true})
    for (const std::vector<double>& ends : {std::vector<double>{3, 3, 20}, {0, 7, 9}, {20, 20, 20}, {1, 2, 3}}) {
      const std::string body = fmt::format(R"(input %0 "x": f32[20, 37]
input %1 "ends": i32[3]

parameter %2 "w": f32{}

%3 = {}: f32[3, 37, 50]
%4 = grouped_matmul(%0, %3, %1): f32[20, 50]

output "y" %4
)",
                                           is_turned ? "[3, 50, 37]" : "[3, 37, 50]",
                                           is_turned ? "transpose(%2) {permutation = [0, 2, 1]}" : "mul(%2, %2)");
      SCOPED_TRACE(body);
      const Arrays inputs{numbers(DType::f32, {20, 37}), store(DType::i32, {3}, ends)};
      const Weights weights{{"w", numbers(DType::f32, is_turned ? Sizes{3, 50, 37} : Sizes{3, 37, 50}, 2)}};
      expect_as_reference(body, inputs, weights);
      EXPECT_TRUE(evaluated(parsed(body), inputs, weights).empty());
    }
}

// Resampling by whole factors moves whole places; other indices are read one by one.
TEST(IndexingPlan, ConstantIndicesAgree) {
  for (const std::vector<double>& at : {std::vector<double>{0, 0, 1, 1, 2, 2, 3, 3},
                                        {0, 2},
                                        {1, 2, 3},
                                        {3, 2, 1},
                                        {0, 0, 1, 2},
                                        {0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3},
                                        {2, 2},
                                        {3}}) {
    for (const int64_t axis : {0, 1, 2}) {
      Sizes x{2, 3, 5}, y = x;
      x[axis] = 4;
      y[axis] = static_cast<int64_t>(at.size());
      const std::string body = fmt::format(
          "input %0 \"x\": f32{}\n\nparameter %1 \"i\": i64{}\n\n%2 = take(%0, %1) {{axis = {}}}: f32{}\n\noutput \"y\" %2\n",
          list(x), list({y[axis]}), axis, list(y));
      SCOPED_TRACE(body);
      expect_as_reference(body, {numbers(DType::f32, x)}, {{"i", store(DType::i64, {y[axis]}, at)}});
    }
  }
}

}  // namespace
}  // namespace pycandle
