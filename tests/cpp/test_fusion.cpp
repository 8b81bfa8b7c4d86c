// What the cpu backend fuses: the plan has the kernels that it should, and computes what the reference does, at sizes of 0 and 1
// too, with one thread and two, whether or not anyone looks at the values in between.
#include <tuple>

#include "plan_cases.h"

namespace pycandle {
namespace {

using Names = std::vector<std::string>;

// Runs the program on both backends and gives the kernels of the plan. Every value that a node gives has a tap.
Names fused(const std::string& body, const Arrays& inputs, const Weights& weights = {}) {
  Program p = parsed(body);
  const auto source = memory_parameters(weights);
  const Arrays expected = run(*reference_backend().compile(p, catalogue(), source), inputs);
  const auto steps_of = [&](const Program& program, int threads, bool looks) {
    PipelineOptions options;
    options.threads = threads;
    const auto executable = cpu_backend().compile(program, catalogue(), source, options);
    Names names;
    RunRequest request;
    request.inputs = inputs;
    request.prepare_fully = true;
    request.on_step = [&](const StepTime& s) { names.emplace_back(s.kernel); };
    if (looks) request.on_tap = [](size_t, const Array&) {};
    const Arrays got = executable->run(request);
    EXPECT_EQ(got.size(), expected.size());
    for (size_t i = 0; i < got.size(); ++i) expect_close(got[i], expected[i]);
    return names;
  };
  const Names plain = steps_of(p, 1, false);
  EXPECT_EQ(steps_of(p, 2, false), plain);
  for (const Node& node : p.graph.nodes) {
    for (const ValueId v : node.results) p.taps.push_back({TapId::parse(fmt::format("v{}@0/output", v)), v, "", false});
  }
  EXPECT_EQ(steps_of(p, 1, true), plain) << "taps change nothing";
  return plain;
}

Array weight(Sizes shape, uint64_t seed) { return numbers(DType::f32, std::move(shape), seed); }

TEST(Fusion, ASumAndThenAnActivationAreDoneBeforeAConvolutionIsStored) {
  for (const int64_t batch : {1, 2}) {
    const std::string body = fmt::format(R"(input %0 "x": f32[{0}, 3, 9, 8]
input %1 "r": f32[{0}, 5, 9, 8]

parameter %2 "w": f32[5, 3, 3, 3]

%3 = conv2d(%0, %2, _) {{stride = [1, 1], padding = [1, 1], dilation = [1, 1]}}: f32[{0}, 5, 9, 8]
%4 = add(%3, %1): f32[{0}, 5, 9, 8]
%5 = relu(%4): f32[{0}, 5, 9, 8]

output "y" %5
)",
                                         batch);
    EXPECT_EQ(fused(body, {weight({batch, 3, 9, 8}, 1), weight({batch, 5, 9, 8}, 2)}, {{"w", weight({5, 3, 3, 3}, 3)}}),
              Names(static_cast<size_t>(batch), "gemm"));
  }
}

TEST(Fusion, ConvolutionsOfFewPixelsAndOfManyAgree) {
  for (const auto& [channels, size, kernel] :
       {std::tuple<int64_t, int64_t, int64_t>{70, 14, 3}, {40, 7, 3}, {64, 7, 1}, {33, 1, 1}, {3, 40, 5}, {5, 20, 1}}) {
    SCOPED_TRACE(size);
    const std::string image = fmt::format("f32[2, {}, {}, {}]", channels, size, size);
    const std::string body = fmt::format(R"(input %0 "x": {0}

parameter %1 "w": f32[{1}, {1}, {2}, {2}]
parameter %2 "b": f32[{1}]
parameter %3 "mean": f32[{1}]
parameter %4 "var": f32[{1}]

%5 = conv2d(%0, %1, %2) {{stride = [1, 1], padding = [{3}, {3}], dilation = [1, 1]}}: {0}
%6 = batch_norm(%5, %3, %4, _, %2) {{eps = 1e-05}}: {0}
%7 = add(%6, %0): {0}
%8 = relu(%7): {0}

output "y" %8
)",
                                         image, channels, kernel, kernel / 2);
    Array variance = weight({channels}, 4);
    for (int64_t i = 0; i < channels; ++i) {
      auto* v = static_cast<float*>(variance.mutable_data());
      v[i] = v[i] * v[i] + 0.5f;
    }
    EXPECT_EQ(fused(body, {weight({2, channels, size, size}, 1)},
                    {{"w", weight({channels, channels, kernel, kernel}, 2)},
                     {"b", weight({channels}, 3)},
                     {"mean", weight({channels}, 5)},
                     {"var", variance}}),
              (Names{"gemm", "gemm"}));
  }
}

TEST(Fusion, BoundsAndOtherActivationsAreEpiloguesOfProducts) {
  for (const char* activation :
       {"hardtanh(%2) {min_val = 0.0, max_val = 0.5}", "clamp(%2) {min = -0.25}", "relu6(%2)", "hardswish(%2)", "mish(%2)",
        "elu(%2) {alpha = 0.7}", "softplus(%2)", "hardsigmoid(%2)", "log_sigmoid(%2)", "leaky_relu(%2) {negative_slope = 0.2}"}) {
    SCOPED_TRACE(activation);
    const std::string body = fmt::format(R"(input %0 "x": f32[19, 6]

parameter %1 "w": f32[7, 6]

%2 = linear(%0, %1, _): f32[19, 7]
%3 = {}: f32[19, 7]

output "y" %3
)",
                                         activation);
    EXPECT_EQ(fused(body, {weight({19, 6}, 1)}, {{"w", weight({7, 6}, 2)}}), Names{"gemm"});
  }
}

TEST(Fusion, ActivationsKeepNaNAndInfinity) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Array x = store(DType::f32, {8}, std::vector<double>{nan, inf, -inf, 0, -0.0, 30, -30, 1e-30});
  for (const char* activation : {"hardtanh(%0)", "clamp(%0) {min = 1.0, max = -1.0}", "clamp(%0) {max = 0.5}", "hardswish(%0)",
                                 "elu(%0)", "softplus(%0)", "hardsigmoid(%0)", "log_sigmoid(%0)", "relu6(%0)"}) {
    SCOPED_TRACE(activation);
    EXPECT_EQ(fused(fmt::format("input %0 \"x\": f32[8]\n\n%1 = {}: f32[8]\n\noutput \"y\" %1\n", activation), {x}),
              Names{"chain"});
  }
}

// Queries, keys and values of [batch, length, 12] in heads of 4.
std::string projections(int64_t batch, int64_t length) {
  return fmt::format(R"(input %0 "x": f32[{0}, {1}, 12]

parameter %1 "q": f32[12, 12]
parameter %2 "k": f32[4, 12]
parameter %3 "v": f32[4, 12]
parameter %4 "bq": f32[12]
parameter %5 "bk": f32[4]
parameter %6 "bv": f32[4]

%7 = linear(%0, %1, %4): f32[{0}, {1}, 12]
%8 = split_heads(%7) {{heads = 3}}: f32[{0}, 3, {1}, 4]
%9 = linear(%0, %2, %5): f32[{0}, {1}, 4]
%10 = split_heads(%9) {{heads = 1}}: f32[{0}, 1, {1}, 4]
%11 = linear(%0, %3, %6): f32[{0}, {1}, 4]
%12 = split_heads(%11) {{heads = 1}}: f32[{0}, 1, {1}, 4]
%13 = scaled_dot_product_attention(%8, %10, %12, _, _, _, _) {{is_causal = true, enable_gqa = true}}: f32[{0}, 3, {1}, 4]
%14 = merge_heads(%13): f32[{0}, {1}, 12]

)",
                     batch, length);
}

Weights projection_weights() {
  return {{"q", weight({12, 12}, 2)}, {"k", weight({4, 12}, 3)}, {"v", weight({4, 12}, 4)},
          {"bq", weight({12}, 5)},    {"bk", weight({4}, 6)},    {"bv", weight({4}, 7)}};
}

TEST(Fusion, QueriesKeysAndValuesAreOneProductWhoseHeadsNobodyCopies) {
  for (const auto& [batch, length] : {std::pair<int64_t, int64_t>{1, 1}, {1, 40}, {3, 7}}) {
    EXPECT_EQ(fused(projections(batch, length) + "output \"y\" %14\n", {weight({batch, length, 12}, 1)}, projection_weights()),
              (Names{"gemm", "attention"}));
  }
  fused(projections(0, 4) + "output \"y\" %14\n", {weight({0, 4, 12}, 1)}, projection_weights());
}

TEST(Fusion, OnlyTheLastRowOfWhatNobodyElseWantsIsComputed) {
  const std::string body = projections(2, 9) + R"(%15 = add(%14, %0): f32[2, 9, 12]
%16 = layer_norm(%15, _, _) {normalized_shape = [12], eps = 1e-05}: f32[2, 9, 12]
%17 = linear(%16, %1, _): f32[2, 9, 12]
%18 = gelu(%17): f32[2, 9, 12]
%19 = add(%18, %15): f32[2, 9, 12]
%20 = slice(%19) {starts = [0, 8, 0], stops = [2, 9, 12], steps = [1, 1, 1]}: f32[2, 1, 12]

output "y" %20
)";
  fused(body, {weight({2, 9, 12}, 1)}, projection_weights());
  double work = 0;
  RunRequest request;
  request.inputs = {weight({2, 9, 12}, 1)};
  request.on_step = [&](const StepTime& s) { work += s.kernel == "gemm" || s.kernel == "attention" ? s.work : 0; };
  cpu_backend().compile(parsed(body), catalogue(), memory_parameters(projection_weights()))->run(request);
  const double rows = 2, keys_and_values = 2 * 9 * 12 * 8, query_and_mlp = rows * 2 * 12 * 12, attention = 2 * rows * 3 * 9 * 4;
  EXPECT_EQ(work, keys_and_values + query_and_mlp + attention);
}

TEST(Fusion, RotaryPositionsAreOneKernelForEveryLayout) {
  struct Layout {
    const char *x, *angles, *attributes;
  };
  for (const Layout& l :
       {Layout{"2, 3, 5, 8", "2, 5, 8", "unsqueeze_dim = 1"}, Layout{"2, 5, 3, 8", "1, 5, 8", "unsqueeze_dim = 2"},
        Layout{"2, 3, 5, 8", "5, 4", "paired = true"}, Layout{"3, 5, 8", "5, 6", "interleaved = true"},
        Layout{"5, 8", "5, 4", "interleaved = true, paired = true"}, Layout{"2, 3, 1, 8", "1, 8", "interleaved = false"},
        Layout{"2, 3, 0, 8", "0, 8", "interleaved = false"}, Layout{"2, 3, 5, 7", "5, 6", "interleaved = false"}}) {
    SCOPED_TRACE(l.x);
    const std::string body = fmt::format(R"(input %0 "x": f32[{0}]
input %1 "angle": f32[{1}]

%2 = cos(%1): f32[{1}]
%3 = sin(%1): f32[{1}]
%4 = rotary_embedding(%0, %2, %3) {{{2}}}: f32[{0}]

output "y" %4
)",
                                         l.x, l.angles, l.attributes);
    const Program p = parsed(body);
    const Sizes x = evaluate(p.graph.type(0).shape, {}), angles = evaluate(p.graph.type(1).shape, {});
    const Names names = fused(body, {weight(x, 1), weight(angles, 2)});
    EXPECT_EQ(std::count(names.begin(), names.end(), "rotary"), element_count(x) > 0 ? 1 : 0);
    EXPECT_EQ(std::count(names.begin(), names.end(), "evaluator"), 0);
  }
}

TEST(Fusion, AttentionTakesALiBiAndMaskedBiasItself) {
  const std::string body = R"(input %0 "q": f32[2, 3, 5, 8]
input %1 "k": f32[2, 3, 7, 8]
input %2 "slopes": f32[3]
input %3 "positions": f32[2, 7]
input %4 "keys": bool[2, 7]
input %5 "pairs": bool[2, 1, 5, 7]

%6 = scaled_dot_product_attention(%0, %1, %1, _, _, %2, %3) {is_causal = true, query_offset = 2, alibi_scale = 0.5}: f32[2, 3, 5, 8]
%7 = scaled_dot_product_attention(%0, %1, %1, _, %4, _, _) {is_causal = true, masked_bias = -10.0}: f32[2, 3, 5, 8]
%8 = scaled_dot_product_attention(%0, %1, %1, %5, _, %2, %3): f32[2, 3, 5, 8]

output "alibi" %6
output "bias" %7
output "both" %8
)";
  const Names names = fused(body, {weight({2, 3, 5, 8}, 1), weight({2, 3, 7, 8}, 2), weight({3}, 3), weight({2, 7}, 4),
                                   numbers(DType::boolean, {2, 7}, 5), numbers(DType::boolean, {2, 1, 5, 7}, 6)});
  EXPECT_EQ(std::count(names.begin(), names.end(), "attention"), 3);
  EXPECT_EQ(std::count(names.begin(), names.end(), "gemm"), 0);
}

TEST(Fusion, AReductionEndsTheChainThatItReads) {
  for (const auto& [rows, columns, inner] :
       {std::tuple<int64_t, int64_t, int64_t>{3, 5, 7}, {1, 1, 2}, {40, 1, 3000}, {2, 130, 33}}) {
    SCOPED_TRACE(fmt::format("{} {} {}", rows, columns, inner));
    const std::string shape = fmt::format("f32[{}, {}, {}]", rows, columns, inner);
    for (const char* reduce : {"reduce_sum", "reduce_max", "reduce_min"}) {
      for (const int axes : {1, 2}) {
        const std::string body = fmt::format(R"(input %0 "x": {0}
input %1 "y": f32[{1}]

%2 = broadcast(%1) {{shape = [{2}, {1}, {3}], axes = [1]}}: {0}
%3 = mul(%0, %2): {0}
%4 = exp(%3): {0}
%5 = {4}(%4) {{axes = [{5}]}}: f32[{6}]
%6 = exp(%0): {0}
%7 = add(%6, %0): {0}
%8 = {4}(%7) {{axes = [2]}}: f32[{2}, {1}]

output "y" %5
output "z" %6
output "sum of what is needed elsewhere too" %8
)",
                                             shape, columns, rows, inner, reduce, axes == 1 ? "2" : "1, 2",
                                             axes == 1 ? fmt::format("{}, {}", rows, columns) : fmt::format("{}", rows));
        EXPECT_EQ(fused(body, {weight({rows, columns, inner}, 1), weight({columns}, 2)}),
                  (Names{"reducing_chain", "reducing_chain"}));
      }
    }
  }
  // Nothing, and one number, to reduce.
  for (const int64_t inner : {0, 1}) {
    fused(fmt::format("input %0 \"x\": f32[3, {0}]\n\n%1 = exp(%0): f32[3, {0}]\n%2 = reduce_sum(%1) {{axes = [1]}}: f32[3]\n\n"
                      "output \"y\" %2\n",
                      inner),
          {weight({3, inner}, 1)});
  }
}

TEST(Fusion, CopiesOfMoreAxesThanTheKernelHasAreRight) {
  EXPECT_EQ(fused(R"(input %0 "x": f32[2, 3, 2, 2, 2, 2, 2, 2, 3, 2]

%1 = transpose(%0) {permutation = [9, 7, 5, 3, 1, 0, 2, 4, 6, 8]}: f32[2, 2, 2, 2, 3, 2, 2, 2, 2, 3]
%2 = reshape(%1) {shape = [2304]}: f32[2304]

output "y" %2
)",
                  {weight({2, 3, 2, 2, 2, 2, 2, 2, 3, 2}, 1)}),
            Names{"copy"});
}

}  // namespace
}  // namespace pycandle
