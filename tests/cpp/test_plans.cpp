// The cpu backend's plans: what it runs agrees with the reference, whatever is fused, viewed or reused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "backends/cpu/view.h"
#include "base/error.h"
#include "plan_cases.h"

namespace pycandle {
namespace {

const char* const kSwallowing = R"(input %0 "x": f32[2, 3]

parameter %1 "w": f32[2, 3]

%2 = linear(%0, %1, _): f32[2, 2]
%3 = relu(%2): f32[2, 2]

output "y" %3
)";

TEST(View, ReshapeKeepsStridesWhereItCanAndRefusesWhereItCannot) {
  const cpu::View x = cpu::dense_view(0, DType::f32, {2, 3, 4});
  const cpu::View t = cpu::transposed(x, {1, 0, 2});  // [3, 2, 4] with strides 4, 12, 1
  const auto split = cpu::reshaped(t, {3, 2, 2, 2});
  ASSERT_TRUE(split);
  EXPECT_EQ(split->strides, (Sizes{4, 12, 2, 1}));
  EXPECT_FALSE(cpu::reshaped(t, {6, 4}));
  EXPECT_TRUE(cpu::reshaped(cpu::broadcasted(x, {5, 2, 3, 4}, {1, 2, 3}), {5, 6, 4}));
  const auto ones = cpu::reshaped(t, {1, 3, 1, 2, 4, 1});
  ASSERT_TRUE(ones);
  EXPECT_EQ(ones->strides[1], 4);
  EXPECT_EQ(ones->strides[3], 12);
}

TEST(CpuPlan, MovementOpsAgreeWithTheReference) {
  expect_as_reference(R"(input %0 "x": f32[2, 3, 4]
input %1 "y": f32[2, 2, 4]

%2 = transpose(%0) {permutation = [2, 0, 1]}: f32[4, 2, 3]
%3 = reshape(%2) {shape = [8, 3]}: f32[8, 3]
%4 = reverse(%3) {axes = [0]}: f32[8, 3]
%5 = slice(%4) {starts = [1, 0], stops = [8, 3], steps = [3, 2]}: f32[3, 2]
%6 = concat(%0, %1) {axis = 1}: f32[2, 5, 4]
%7 = broadcast(%5) {shape = [2, 3, 2], axes = [1, 2]}: f32[2, 3, 2]
%8 = add(%7, %7): f32[2, 3, 2]

output "a" %3
output "b" %5
output "c" %6
output "d" %7
output "e" %8
output "same" %0
output "again" %0
)",
                      {numbers(DType::f32, {2, 3, 4}), numbers(DType::f32, {2, 2, 4}, 2)});
}

TEST(CpuPlan, EveryDtypeMovesAndComputes) {
  for (const DType d : {DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32, DType::i16, DType::i8, DType::u8}) {
    const std::string t(name_of(d));
    expect_as_reference(fmt::format(R"(input %0 "x": {0}[3, 4]

%1 = transpose(%0) {{permutation = [1, 0]}}: {0}[4, 3]
%2 = reshape(%1) {{shape = [3, 4]}}: {0}[3, 4]
%3 = mul(%0, %2): {0}[3, 4]
%4 = concat(%3, %2) {{axis = 0}}: {0}[6, 4]

output "y" %4
)",
                                    t),
                        {numbers(d, {3, 4})});
  }
}

TEST(CpuPlan, ChainsOfElementwiseNodesAgree) {
  // Values used twice, by others and outside; broadcasts of rows, columns and numbers; comparisons and choices.
  expect_as_reference(R"(input %0 "x": f32[3, 5, 700]
input %1 "row": f32[700]
input %2 "column": f32[5, 1]

%3 = broadcast(%1) {shape = [3, 5, 700], axes = [2]}: f32[3, 5, 700]
%4 = broadcast(%2) {shape = [3, 5, 700], axes = [1, 2]}: f32[3, 5, 700]
%5 = add(%0, %3): f32[3, 5, 700]
%6 = mul(%5, %4): f32[3, 5, 700]
%7 = sigmoid(%6): f32[3, 5, 700]
%8 = mul(%7, %6): f32[3, 5, 700]
%9 = gt(%8, %0): bool[3, 5, 700]
%10 = select(%9, %8, %3): f32[3, 5, 700]
%11 = bitwise_not(%9): bool[3, 5, 700]
%12 = cast(%11) {dtype = f32}: f32[3, 5, 700]
%13 = sub(%10, %12): f32[3, 5, 700]
%14 = neg(%4): f32[3, 5, 700]
%15 = exp(%14): f32[3, 5, 700]

output "a" %13
output "b" %7
output "c" %11
output "d" %15
output "e" %6
)",
                      {numbers(DType::f32, {3, 5, 700}), numbers(DType::f32, {700}, 2), numbers(DType::f32, {5, 1}, 3)});
}

TEST(CpuPlan, AChainOverwritesOnlyWhatNobodyNeedsAnyMore) {
  expect_as_reference(R"(input %0 "x": f32[4, 6]

%1 = exp(%0): f32[4, 6]
%2 = transpose(%1) {permutation = [1, 0]}: f32[6, 4]
%3 = reshape(%2) {shape = [4, 6]}: f32[4, 6]
%4 = add(%1, %3): f32[4, 6]
%5 = mul(%4, %1): f32[4, 6]
%6 = cumsum(%5) {axis = 1}: f32[4, 6]
%7 = sub(%6, %5): f32[4, 6]
%8 = add(%7, %5): f32[4, 6]

output "a" %8
output "b" %4
)",
                      {numbers(DType::f32, {4, 6})});
}

TEST(CpuPlan, WhatFollowsALinearLayerIsItsEpilogue) {
  const std::string body = R"(symbol s0 in [1, 64] example 2 from "x" axis 0

input %0 "x": f32[s0, 7, 20]
input %1 "r": f32[s0, 7, 33]

parameter %2 "w": f32[33, 20]
parameter %3 "b": f32[33]
parameter %4 "v": f32[33, 17]

%5 = linear(%0, %2, %3): f32[s0, 7, 33]
%6 = gelu(%5): f32[s0, 7, 33]
%7 = mul(%6, %1): f32[s0, 7, 33]
%8 = add(%1, %7): f32[s0, 7, 33]
%9 = linear(%8, %4, _) {weight_order = "in_out"}: f32[s0, 7, 17]
%10 = slice(%9) {starts = [0, 6, 0], stops = [s0, 7, 17], steps = [1, 1, 1]}: f32[s0, 1, 17]
%11 = linear(%0, %2, _): f32[s0, 7, 33]
%12 = add(%11, %1): f32[s0, 7, 33]
%13 = relu(%12): f32[s0, 7, 33]

output "last" %10
output "sum" %13
)";
  for (const int64_t batch : {1, 3}) {
    expect_as_reference(
        body, {numbers(DType::f32, {batch, 7, 20}), numbers(DType::f32, {batch, 7, 33}, 5)},
        {{"w", numbers(DType::f32, {33, 20}, 2)}, {"b", numbers(DType::f32, {33}, 3)}, {"v", numbers(DType::f32, {33, 17}, 4)}});
  }
}

TEST(CpuPlan, AResidualThatIsAlsoMultipliedIsNotOverwrittenEarly) {
  expect_as_reference(R"(input %0 "x": f32[300, 64]

parameter %1 "w": f32[64, 64]

%2 = exp(%0): f32[300, 64]
%3 = linear(%2, %1, _): f32[300, 64]
%4 = add(%3, %2): f32[300, 64]
%5 = linear(%4, %1, _): f32[300, 64]
%6 = add(%5, %4): f32[300, 64]
%7 = layer_norm(%6, _, _) {normalized_shape = [64], eps = 1e-05}: f32[300, 64]

output "y" %7
)",
                      {numbers(DType::f32, {300, 64})}, {{"w", numbers(DType::f32, {64, 64}, 2)}});
}

TEST(CpuPlan, AValueThatAFusedKernelSwallowedIsNotShown) {
  Program p = parsed(kSwallowing);
  for (const ValueId v : {2, 3}) p.taps.push_back({TapId::parse(fmt::format("v{}@0/output", v)), v, "", false});
  std::set<size_t> seen;
  RunRequest request;
  request.inputs = {numbers(DType::f32, {2, 3})};
  request.on_tap = [&](size_t tap, const Array&) { seen.insert(tap); };
  const auto e = cpu_backend().compile(p, catalogue(), memory_parameters({{"w", numbers(DType::f32, {2, 3})}}));
  const Arrays tapped = e->run(request);
  EXPECT_EQ(seen, (std::set<size_t>{1}));
  EXPECT_TRUE(tapped[0].same_bytes(run(*e, request.inputs)[0]));
}

TEST(CpuPlan, ProductsOfAnyAxesAgree) {
  expect_as_reference(
      R"(input %0 "a": f32[2, 3, 4, 5]
input %1 "b": f32[3, 5, 2, 6]
input %2 "c": f32[6, 2, 4, 7, 3]

%3 = dot_general(%0, %1) {batch_left = [0, 1], batch_right = [2, 0], contract_left = [3], contract_right = [1]}: f32[2, 3, 4, 6]
%4 = dot_general(%3, %2) {batch_left = [1, 0], batch_right = [4, 1], contract_left = [3, 2], contract_right = [0, 2]}: f32[3, 2, 7]
%5 = dot_general(%0, %1) {batch_left = [], batch_right = [], contract_left = [0, 1], contract_right = [2, 0]}: f32[4, 5, 5, 6]

output "x" %3
output "y" %4
output "z" %5
)",
      {numbers(DType::f32, {2, 3, 4, 5}), numbers(DType::f32, {3, 5, 2, 6}, 2), numbers(DType::f32, {6, 2, 4, 7, 3}, 3)});
}

TEST(CpuPlan, NormsSoftmaxReductionsAndLookupsAgree) {
  expect_as_reference(R"(input %0 "x": f32[2, 6, 10]
input %1 "i": i64[3, 2]
input %2 "w": f32[10]

%3 = layer_norm(%0, %2, %2) {normalized_shape = [10], eps = 1e-05}: f32[2, 6, 10]
%4 = rms_norm(%3, %2) {normalized_shape = [10], eps = 1e-06, weight_offset = 1.0}: f32[2, 6, 10]
%5 = softmax(%4) {dim = -1}: f32[2, 6, 10]
%6 = log_softmax(%5) {dim = 1}: f32[2, 6, 10]
%7 = group_norm(%6, _, _) {groups = 3, eps = 1e-05}: f32[2, 6, 10]
%8 = reduce_sum(%6) {axes = [0, 2]}: f32[6]
%9 = reduce_max(%6) {axes = [1]}: f32[2, 10]
%10 = transpose(%0) {permutation = [1, 2, 0]}: f32[6, 10, 2]
%11 = reduce_min(%10) {axes = [1, 2]}: f32[6]
%12 = take(%0, %1) {axis = 0}: f32[3, 2, 6, 10]
%13 = layer_norm(%10, _, _) {normalized_shape = [10, 2], eps = 1e-05}: f32[6, 10, 2]

output "a" %4
output "b" %7
output "c" %8
output "d" %9
output "e" %11
output "f" %12
output "g" %13
)",
                      {numbers(DType::f32, {2, 6, 10}), store(DType::i64, {3, 2}, std::vector<int64_t>{0, 1, 1, 0, 0, 1}),
                       numbers(DType::f32, {10}, 3)});
}

TEST(CpuPlan, SoftmaxAndReductionsOverAnyAxesAgree) {
  expect_as_reference(R"(input %0 "x": f32[3, 5, 7, 70]

%1 = softmax(%0) {dim = 0}: f32[3, 5, 7, 70]
%2 = softmax(%0) {dim = -2}: f32[3, 5, 7, 70]
%3 = transpose(%0) {permutation = [0, 2, 1, 3]}: f32[3, 7, 5, 70]
%4 = log_softmax(%3) {dim = 2}: f32[3, 7, 5, 70]
%5 = slice(%0) {starts = [0, 0, 2, 3], stops = [3, 5, 6, 68], steps = [1, 1, 1, 1]}: f32[3, 5, 4, 65]
%6 = softmax(%5) {dim = 2}: f32[3, 5, 4, 65]
%7 = reduce_sum(%0) {axes = [0, 2]}: f32[5, 70]
%8 = reduce_max(%3) {axes = [0, 1, 3]}: f32[5]
%9 = reduce_min(%0) {axes = [1, 3]}: f32[3, 7]

output "a" %1
output "b" %2
output "c" %4
output "d" %6
output "e" %7
output "f" %8
output "g" %9
)",
                      {numbers(DType::f32, {3, 5, 7, 70})});
}

TEST(CpuPlan, RunningSumsOfIntegersAgreeAlongAnyAxisAndWrap) {
  constexpr int64_t kMost = INT64_MAX;
  expect_as_reference(R"(input %0 "x": i64[2, 3]
input %1 "none": i64[2, 0]

%2 = cumsum(%0) {axis = 0}: i64[2, 3]
%3 = transpose(%0) {permutation = [1, 0]}: i64[3, 2]
%4 = cumsum(%3) {axis = 1}: i64[3, 2]
%5 = reverse(%0) {axes = [1]}: i64[2, 3]
%6 = cumsum(%5) {axis = 1}: i64[2, 3]
%7 = cumsum(%1) {axis = 1}: i64[2, 0]

output "a" %2
output "b" %4
output "c" %6
output "d" %7
)",
                      {store(DType::i64, {2, 3}, std::vector<int64_t>{1, kMost, -5, 7, 1, 2}), Array(DType::i64, {2, 0})});
}

TEST(CpuPlan, SoftmaxOfNothingIsNothing) {
  expect_as_reference(R"(input %0 "x": f32[5, 0, 3]

%1 = softmax(%0) {dim = -1}: f32[5, 0, 3]
%2 = log_softmax(%0) {dim = 1}: f32[5, 0, 3]

output "a" %1
output "b" %2
)",
                      {numbers(DType::f32, {5, 0, 3})});
}

TEST(CpuPlan, AWindowLargerThanItsInputIsAnError) {
  for (const char* op : {"max_pool1d(%0) {kernel_size = [4], stride = [1]}", "avg_pool1d(%0) {kernel_size = [4], stride = [1]}",
                         "conv1d(%0, %1, _)"}) {
    const Program p = parsed(fmt::format(R"(symbol s0 in [1, 64] example 8 from "x" axis 2

input %0 "x": f32[2, 3, s0]
input %1 "w": f32[3, 3, 4]

%2 = {}: f32[2, 3, s0 - 3]

output "y" %2
)",
                                         op));
    const Array weight = numbers(DType::f32, {3, 3, 4});
    for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
      SCOPED_TRACE(fmt::format("{} {}", backend->name(), op));
      const auto e = backend->compile(p, catalogue(), memory_parameters({}));
      EXPECT_EQ(run(*e, {numbers(DType::f32, {2, 3, 5}), weight})[0].shape(), (Sizes{2, 3, 2}));
      for (const int64_t size : {1, 3}) EXPECT_THROW(run(*e, {numbers(DType::f32, {2, 3, size}), weight}), Error) << size;
    }
  }
}

TEST(CpuPlan, AnIndexThatIsNotThereIsAnErrorThatNamesIt) {
  const Program p = parsed(R"(input %0 "x": f32[4, 2]
input %1 "i": i64[2]

%2 = take(%0, %1) {axis = 0}: f32[2, 2]

output "y" %2
)");
  const Arrays inputs{numbers(DType::f32, {4, 2}), store(DType::i64, {2}, std::vector<int64_t>{1, 4})};
  std::vector<std::string> texts;
  for (const Backend* backend : {&reference_backend(), &cpu_backend()}) {
    try {
      run(*backend->compile(p, catalogue(), memory_parameters({})), inputs);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      texts.emplace_back(e.what());
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
}

TEST(CpuPlan, AttentionAgreesUnderEveryMask) {
  const char* const forms[] = {"", "is_causal = true", "is_causal = true, scale = 0.3, window = 3",
                               "is_causal = true, query_offset = 2, eager = true", "window = 2, query_offset = 1"};
  for (const char* form : forms) {
    for (const char* masks : {"_, _", "%3, _", "_, %4", "%5, %4"}) {
      const std::string attributes = *form ? fmt::format(" {{{}}}", form) : "";
      expect_as_reference(
          fmt::format(R"(input %0 "q": f32[2, 5, 12]
input %1 "k": f32[2, 7, 12]
input %2 "v": f32[2, 7, 12]
input %3 "m": f32[5, 7]
input %4 "n": bool[2, 7]
input %5 "o": bool[2, 1, 5, 7]

%6 = split_heads(%0) {{heads = 3}}: f32[2, 3, 5, 4]
%7 = split_heads(%1) {{heads = 3}}: f32[2, 3, 7, 4]
%8 = split_heads(%2) {{heads = 3}}: f32[2, 3, 7, 4]
%9 = scaled_dot_product_attention(%6, %7, %8, {}, _, _){}: f32[2, 3, 5, 4]
%10 = merge_heads(%9): f32[2, 5, 12]

output "y" %10
output "heads" %9
)",
                      masks, attributes),
          {numbers(DType::f32, {2, 5, 12}), numbers(DType::f32, {2, 7, 12}, 2), numbers(DType::f32, {2, 7, 12}, 3),
           numbers(DType::f32, {5, 7}, 4), numbers(DType::boolean, {2, 7}, 5), numbers(DType::boolean, {2, 1, 5, 7}, 6)});
    }
  }
}

TEST(CpuPlan, RecurrentLayersAgree) {
  struct Form {
    const char* op;
    int gates;
    bool is_bidirectional, is_batch_first;
    int64_t batch, hidden = 19, length = 4, in = 6;
  };
  // The last ones are long enough for products of the input beside the steps, with much or little room for them,
  // the very last one wide enough for several threads.
  for (const Form& f :
       {Form{"lstm", 4, true, true, 2}, Form{"lstm", 4, false, true, 1}, Form{"gru", 3, true, false, 3},
        Form{"rnn_tanh", 1, false, false, 2}, Form{"rnn_relu", 1, true, true, 1}, Form{"lstm", 4, true, true, 1, 24, 21, 33},
        Form{"lstm", 4, false, false, 1, 40, 16, 3}, Form{"gru", 3, true, true, 1, 32, 27, 50},
        Form{"rnn_tanh", 1, false, true, 1, 64, 9, 200}, Form{"lstm", 4, true, true, 1, 200, 18, 40}}) {
    const int64_t directions = f.is_bidirectional ? 2 : 1, hidden = f.hidden, length = f.length, in = f.in;
    const bool has_c = f.gates == 4;
    const Sizes x = f.is_batch_first ? Sizes{f.batch, length, in} : Sizes{length, f.batch, in};
    Sizes y = x;
    y[2] = directions * hidden;
    const Sizes state{2 * directions, f.batch, hidden};
    std::string body = fmt::format("input %0 \"x\": f32{}\ninput %1 \"h\": f32{}\n", to_string(x), to_string(state));
    if (has_c) body += fmt::format("input %2 \"c\": f32{}\n", to_string(state));
    int next = has_c ? 3 : 2;
    Weights weights;
    std::string params;
    body += "\n";
    for (int64_t run = 0; run < 2 * directions; ++run) {
      const int64_t from = run < directions ? in : directions * hidden;
      for (const Sizes& shape :
           {Sizes{f.gates * hidden, from}, Sizes{f.gates * hidden, hidden}, Sizes{f.gates * hidden}, Sizes{f.gates * hidden}}) {
        body += fmt::format("parameter %{} \"w{}\": f32{}\n", next, next, to_string(shape));
        // Small enough that the gates do not saturate: there, roundings of large sums would be all that is seen.
        std::vector<double> small = load_double(numbers(DType::f32, shape, static_cast<uint64_t>(next)));
        for (double& v : small) v /= 8;
        weights[fmt::format("w{}", next)] = store(DType::f32, shape, small);
        params += fmt::format(", %{}", next++);
      }
    }
    const std::string states_type = has_c ? fmt::format("f32{0}, f32{0}", to_string(state)) : "f32" + to_string(state);
    body += fmt::format("\n%{}, %{}{} = {}(%0, %1{}{}) {{num_layers = 2, bidirectional = {}, batch_first = {}}}: f32{}, {}\n\n",
                        next, next + 1, has_c ? fmt::format(", %{}", next + 2) : "", f.op, has_c ? ", %2" : "", params,
                        f.is_bidirectional, f.is_batch_first, to_string(y), states_type);
    body += fmt::format("output \"y\" %{}\noutput \"h\" %{}\n", next, next + 1);
    if (has_c) body += fmt::format("output \"c\" %{}\n", next + 2);
    Arrays inputs{numbers(DType::f32, x, 7), numbers(DType::f32, state, 8)};
    if (has_c) inputs.push_back(numbers(DType::f32, state, 9));
    expect_as_reference(body, inputs, weights);
  }
}

TEST(CpuPlan, ConvolutionsWithWhatFollowsThemAgree) {
  expect_as_reference(R"(input %0 "x": f32[2, 6, 9, 8]

parameter %1 "w": f32[8, 6, 3, 3]
parameter %2 "b": f32[8]
parameter %3 "mean": f32[8]
parameter %4 "var": f32[8]
parameter %5 "point": f32[8, 8, 1, 1]
parameter %6 "deep": f32[16, 1, 3, 3]
parameter %7 "grouped": f32[4, 8, 1, 3]

%8 = conv2d(%0, %1, %2) {stride = [2, 1], padding = [1, 1]}: f32[2, 8, 5, 8]
%9 = batch_norm(%8, %3, %4, %2, _) {eps = 1e-05}: f32[2, 8, 5, 8]
%10 = relu(%9): f32[2, 8, 5, 8]
%11 = conv2d(%10, %5, _): f32[2, 8, 5, 8]
%12 = add(%11, %10): f32[2, 8, 5, 8]
%13 = conv2d(%12, %6, _) {padding = [1, 1], groups = 8}: f32[2, 16, 5, 8]
%14 = relu6(%13): f32[2, 16, 5, 8]
%15 = conv2d(%14, %7, _) {dilation = [1, 2], groups = 2}: f32[2, 4, 5, 4]
%16 = max_pool2d(%12) {kernel_size = [3, 3], stride = [2, 2], padding = [1, 1]}: f32[2, 8, 3, 4]
%17 = avg_pool2d(%12) {kernel_size = [2, 2], stride = [2, 2]}: f32[2, 8, 2, 4]
%18 = max_pool2d(%12) {kernel_size = [2, 3], stride = [2, 3], ceil_mode = true}: f32[2, 8, 3, 3]
%19 = avg_pool2d(%12) {kernel_size = [3, 3], stride = [3, 3], padding = [1, 1], ceil_mode = true}: f32[2, 8, 2, 3]
%20 = reshape(%12) {shape = [16, 40]}: f32[16, 40]
%21 = max_pool1d(%20) {kernel_size = [4], stride = [3], dilation = [2], ceil_mode = true}: f32[16, 12]
%22 = avg_pool1d(%20) {kernel_size = [4], stride = [3], padding = [2], ceil_mode = true, count_include_pad = false}: f32[16, 14]

output "a" %15
output "b" %16
output "c" %17
output "d" %18
output "e" %19
output "f" %21
output "g" %22
)",
                      {numbers(DType::f32, {2, 6, 9, 8})},
                      {{"w", numbers(DType::f32, {8, 6, 3, 3}, 2)},
                       {"b", numbers(DType::f32, {8}, 3)},
                       {"mean", numbers(DType::f32, {8}, 4)},
                       {"var", store(DType::f32, {8}, std::vector<double>{1, 2, 0.5, 3, 1, 0.25, 4, 1})},
                       {"point", numbers(DType::f32, {8, 8, 1, 1}, 5)},
                       {"deep", numbers(DType::f32, {16, 1, 3, 3}, 6)},
                       {"grouped", numbers(DType::f32, {4, 8, 1, 3}, 7)}});
}

const char* const kLinear = R"(symbol s0 in [1, 64] example 2 from "x" axis 0

input %0 "x": f32[s0, 3]

parameter %1 "w": f32[2, 3]
parameter %2 "unread": f32[9]

%3 = linear(%0, %1, _): f32[s0, 2]
%4 = neg(%3): f32[s0, 2]

output "y" %4
)";

Weights linear_weights(uint64_t seed) { return {{"w", numbers(DType::f32, {2, 3}, seed)}, {"unread", numbers(DType::f32, {9})}}; }

TEST(CpuPlan, AnotherSizeHasAnotherPlanAndTheFirstStays) {
  const Program p = parsed(kLinear);
  const auto source = memory_parameters(linear_weights(3));
  const auto cpu = cpu_backend().compile(p, catalogue(), source), reference = reference_backend().compile(p, catalogue(), source);
  for (const int64_t size : {2, 5, 2, 64, 1, 5}) {
    const Arrays inputs{numbers(DType::f32, {size, 3}, static_cast<uint64_t>(size))};
    expect_close(run(*cpu, inputs)[0], run(*reference, inputs)[0]);
  }
  EXPECT_THROW(run(*cpu, {numbers(DType::f32, {65, 3})}), Error);
  EXPECT_THROW(run(*cpu, {numbers(DType::f32, {2, 4})}), Error);
  EXPECT_THROW(run(*cpu, {numbers(DType::f64, {2, 3})}), Error);
  EXPECT_THROW(run(*cpu, {}), Error);
}

TEST(CpuPlan, OtherWeightsUnderTheSameNamesGiveOtherResults) {
  const Program p = parsed(kLinear);
  const Arrays inputs{numbers(DType::f32, {4, 3})};
  std::vector<std::unique_ptr<Executable>> alive;
  for (const uint64_t seed : {1, 2, 1, 3}) {
    const auto source = memory_parameters(linear_weights(seed));
    alive.push_back(cpu_backend().compile(p, catalogue(), source));
    const Array expected = run(*reference_backend().compile(p, catalogue(), source), inputs)[0];
    for (int call = 0; call < 3; ++call) expect_close(run(*alive.back(), inputs)[0], expected);  // packed from the second on
  }
  // And another program with the weights of the first.
  const auto source = memory_parameters(linear_weights(1));
  std::string doubled = kLinear;
  doubled.replace(doubled.find("neg"), 3, "abs");
  const Program other = parsed(doubled);
  expect_close(run(*cpu_backend().compile(other, catalogue(), source), inputs)[0],
               run(*reference_backend().compile(other, catalogue(), source), inputs)[0]);
  const Arrays first = run(*alive[0], inputs), third = run(*alive[2], inputs);
  EXPECT_TRUE(first[0].same_bytes(third[0]));
}

TEST(CpuPlan, ResultsStayWhenTheNextRunReusesTheMemory) {
  const auto e = cpu_backend().compile(parsed(kLinear), catalogue(), memory_parameters(linear_weights(1)));
  const Arrays first = run(*e, {numbers(DType::f32, {4, 3}, 1)});
  const std::vector<double> before = load_double(first[0]);
  const Arrays second = run(*e, {numbers(DType::f32, {4, 3}, 2)});
  EXPECT_EQ(load_double(first[0]), before);
  EXPECT_NE(load_double(second[0]), before);
}

TEST(CpuPlan, SeveralThreadsRunOneExecutableAtOnce) {
  const Program p = parsed(kLinear);
  const auto source = memory_parameters(linear_weights(1));
  const auto e = cpu_backend().compile(p, catalogue(), source), reference = reference_backend().compile(p, catalogue(), source);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t i = 0; i < 50; ++i) {
        const Arrays inputs{numbers(DType::f32, {1 + (i + t) % 7, 3}, static_cast<uint64_t>(i))};
        const std::vector<double> got = load_double(run(*e, inputs)[0]), expected = load_double(run(*reference, inputs)[0]);
        for (size_t k = 0; k < got.size(); ++k) wrong += std::abs(got[k] - expected[k]) > 1e-5 ? 1 : 0;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CpuPlan, TapsShowEveryValueThatIsNotSwallowed) {
  Program p = parsed(R"(input %0 "x": f32[2, 3]

%1 = transpose(%0) {permutation = [1, 0]}: f32[3, 2]
%2, %3 = sort(%1) {axis = 1, descending = false, stable = true}: f32[3, 2], i64[3, 2]
%4 = reshape(%2) {shape = [6]}: f32[6]

output "y" %4
)");
  for (const ValueId v : {0, 1, 2, 3, 4}) p.taps.push_back({TapId::parse(fmt::format("v{}@0/output", v)), v, "", false});
  const auto source = memory_parameters({});
  std::map<size_t, Array> expected, got;
  RunRequest request;
  request.inputs = {numbers(DType::f32, {2, 3})};
  request.on_tap = [&](size_t tap, const Array& a) { EXPECT_TRUE(expected.emplace(tap, a).second); };
  reference_backend().compile(p, catalogue(), source)->run(request);
  request.on_tap = [&](size_t tap, const Array& a) { EXPECT_TRUE(got.emplace(tap, a).second); };
  cpu_backend().compile(p, catalogue(), source)->run(request);
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [tap, array] : expected) EXPECT_TRUE(got.at(tap).same_bytes(array)) << tap;
}

TEST(CpuPlan, StatesGoOnFromRunToRun) {
  const Program p = parsed(R"(input %0 "x": f32[2]

state %1 "count": f32[2]

%2 = add(%0, %1): f32[2]

output "y" %2
update %1 = %2
)");
  const auto source = memory_parameters({{"count", numbers(DType::f32, {2})}});
  std::map<std::string, std::vector<Array>> states{{"cpu", {numbers(DType::f32, {2})}},
                                                   {"reference", {numbers(DType::f32, {2})}}};
  for (const Backend* backend : {&cpu_backend(), &reference_backend()}) {
    const auto e = backend->compile(p, catalogue(), source);
    RunRequest request;
    request.states = &states[backend->name()];
    for (const uint64_t seed : {1, 2, 3}) {
      request.inputs = {numbers(DType::f32, {2}, seed)};
      e->run(request);
    }
  }
  EXPECT_EQ(load_double(states["cpu"][0]), load_double(states["reference"][0]));
}

TEST(CpuPlan, RandomOpsDrawWhatTheReferenceDraws) {
  const Program p = parsed(R"(%0 = normal() {shape = [4], dtype = f32}: f32[4]
%1 = uniform() {shape = [4], dtype = f32}: f32[4]

output "a" %0
output "b" %1
)");
  RunRequest request;
  request.seed = 7;
  const Arrays a = cpu_backend().compile(p, catalogue(), memory_parameters({}))->run(request);
  const Arrays b = reference_backend().compile(p, catalogue(), memory_parameters({}))->run(request);
  for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(a[i].same_bytes(b[i]));
}

}  // namespace
}  // namespace pycandle
