// Weights in the formats of kernels: packed once, shared by executables and sizes, released within a budget.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "params/derived.h"
#include "plan_cases.h"
#include "temporary_folder.h"

namespace pycandle {
namespace {

const char* const kTransposedWeight = R"(symbol s0 in [1, 64] example 2 from "x" axis 0

input %0 "x": f32[s0, 3]

parameter %1 "w": f32[3, 2]

%2 = transpose(%1) {permutation = [1, 0]}: f32[2, 3]
%3 = linear(%0, %2, _): f32[s0, 2]

output "y" %3
)";

std::unique_ptr<Executable> with_weights_of(const std::filesystem::path& folder, int threads) {
  PipelineOptions options;
  options.threads = threads;
  Program p = parsed(kTransposedWeight);
  p.parameters[0].file = "weights.safetensors";
  p.parameters[0].key = "w";
  return cpu_backend().compile(p, catalogue(), file_parameters(folder), options);
}

TEST(PackedWeights, WeightsArePackedOnceForAllExecutablesAndSizes) {
  const TemporaryFolder made;
  const std::filesystem::path& folder = made.path();
  const Array x = numbers(DType::f32, {2, 3}), y = numbers(DType::f32, {5, 3});
  write_safetensors(folder / "weights.safetensors", {{"w", numbers(DType::f32, {3, 2}, 7)}});
  const auto first = with_weights_of(folder, 1), second = with_weights_of(folder, 2);
  const DerivedUse before = derived_use();
  const Array ours = run(*first, {x})[0];
  EXPECT_EQ(derived_use().made, before.made) << "a first call may be the only one";
  EXPECT_TRUE(run(*first, {x})[0].same_bytes(ours));
  EXPECT_EQ(derived_use().made, before.made + 1);
  EXPECT_TRUE(run(*second, {x})[0].same_bytes(ours)) << "which finds them packed";
  run(*first, {y});
  EXPECT_EQ(derived_use().made, before.made + 1) << "neither another executable nor another size packs again";
  EXPECT_EQ(derived_use().found, before.found + 2);

  // Another file under the same name: what is in memory is not what it says.
  write_safetensors(folder / "weights.safetensors", {{"w", numbers(DType::f32, {3, 2}, 8)}});
  const auto third = with_weights_of(folder, 1);
  const Array theirs = run(*third, {x})[0];
  EXPECT_FALSE(theirs.same_bytes(ours));
  EXPECT_TRUE(run(*third, {x})[0].same_bytes(theirs));
  EXPECT_EQ(derived_use().made, before.made + 2);
  EXPECT_TRUE(run(*first, {x})[0].same_bytes(ours)) << "the first one keeps the file it opened";
}

TEST(PackedWeights, AFileThatIsReplacedBetweenTheFirstCallAndTheSecondIsNotMixedIn) {
  const TemporaryFolder made;
  const std::filesystem::path& folder = made.path();
  const Array x = numbers(DType::f32, {2, 3});
  write_safetensors(folder / "weights.safetensors", {{"w", numbers(DType::f32, {3, 2}, 21)}});
  const auto executable = with_weights_of(folder, 1);
  const Array first = run(*executable, {x})[0];
  write_safetensors(folder / "weights.safetensors", {{"w", numbers(DType::f32, {3, 2}, 22)}});
  const auto other = with_weights_of(folder, 1);
  for (int call = 0; call < 2; ++call) EXPECT_FALSE(run(*other, {x})[0].same_bytes(first));
  EXPECT_TRUE(run(*executable, {x})[0].same_bytes(first));
}

// Weights in both orders, joined for attention, deeper than a block, with columns that fill no panel.
std::string many_products_of(int64_t width) {
  return fmt::format(R"(symbol s0 in [1, 400] example 2 from "x" axis 0

input %0 "x": f32[s0, 800]

parameter %1 "q": f32[{0}, 800]
parameter %2 "k": f32[{0}, 800]
parameter %3 "v": f32[{0}, 800]
parameter %4 "bias": f32[{0}]
parameter %5 "up": f32[{0}, 75]
parameter %6 "down": f32[{0}, 75]

%7 = linear(%0, %1, %4): f32[s0, {0}]
%8 = linear(%0, %2, %4): f32[s0, {0}]
%9 = linear(%0, %3, %4): f32[s0, {0}]
%10 = reshape(%7) {{shape = [1, 1, s0, {0}]}}: f32[1, 1, s0, {0}]
%11 = reshape(%8) {{shape = [1, 1, s0, {0}]}}: f32[1, 1, s0, {0}]
%12 = reshape(%9) {{shape = [1, 1, s0, {0}]}}: f32[1, 1, s0, {0}]
%13 = scaled_dot_product_attention(%10, %11, %12, _, _, _): f32[1, 1, s0, {0}]
%14 = reshape(%13) {{shape = [s0, {0}]}}: f32[s0, {0}]
%15 = linear(%14, %5, _) {{weight_order = "in_out"}}: f32[s0, 75]
%16 = gelu(%15): f32[s0, 75]
%17 = linear(%16, %6, %4): f32[s0, {0}]
%18 = add(%17, %14): f32[s0, {0}]

output "y" %18
)",
                     width);
}

std::unique_ptr<Executable> many_products(const std::filesystem::path& folder, int threads, int64_t width = 96) {
  const auto small = [](Sizes shape, uint64_t seed) {
    std::vector<double> values = load_double(numbers(DType::f32, shape, seed));
    for (double& v : values) v /= 32;
    return store(DType::f32, shape, values);
  };
  PipelineOptions options;
  options.threads = threads;
  Program p = parsed(many_products_of(width));
  std::map<std::string, Array> weights;
  for (Parameter& q : p.parameters) {
    weights[q.name] = small(evaluate(q.type.shape, {}), weights.size() + 1);
    q.file = "weights.safetensors";
    q.key = q.name;
  }
  write_safetensors(folder / "weights.safetensors", weights);
  return cpu_backend().compile(p, catalogue(), file_parameters(folder), options);
}

void expect_the_same_bits(int threads, int64_t width, int64_t rows) {
  SCOPED_TRACE(fmt::format("{} threads, {} columns, {} rows", threads, width, rows));
  const TemporaryFolder made;
  const std::filesystem::path& folder = made.path();
  const Array x = numbers(DType::f32, {rows, 800});
  const auto executable = many_products(folder, threads, width);
  const size_t before = derived_use().made;
  const Array first = run(*executable, {x})[0];
  EXPECT_EQ(derived_use().made, before) << "the first call packs nothing";
  const size_t mapped = executable->use().weight_bytes;
  for (int call = 0; call < 2; ++call) EXPECT_TRUE(run(*executable, {x})[0].same_bytes(first));
  EXPECT_EQ(derived_use().made, before + 3) << "queries, keys and values are one";
  EXPECT_EQ(executable->use().planned.size(), 2U);
  EXPECT_GE(executable->use().weight_bytes, mapped) << "the last panels are filled up";
  EXPECT_LT(executable->use().weight_bytes, mapped * 5 / 4) << "nothing is kept twice";

  RunRequest request;
  request.inputs = {x};
  request.prepare_fully = true;
  const auto prepared = many_products(folder, threads, width);  // of a file that was written anew
  EXPECT_TRUE(prepared->run(request)[0].same_bytes(first));
  EXPECT_EQ(derived_use().made, before + 6);
  EXPECT_EQ(prepared->use().planned.size(), 1U);
}

TEST(PackedWeights, TheFirstCallHasTheBitsOfLaterOnes) {
  for (const int threads : {1, 2}) {
    for (const int64_t width : {96, 70}) {  // whole panels, and not
      for (const int64_t rows : {1, 4, 5, 300}) expect_the_same_bits(threads, width, rows);
    }
  }
}

TEST(PackedWeights, HostThreadsThatMakeTheFirstCallsTogetherPackOnce) {
  const TemporaryFolder made;
  const std::filesystem::path& folder = made.path();
  const Array x = numbers(DType::f32, {40, 800});
  const Array expected = run(*many_products(folder, 1), {x})[0];
  for (int round = 0; round < 10; ++round) {
    const auto executable = many_products(folder, 1);
    const size_t before = derived_use().made;
    constexpr int kThreads = 4;
    std::atomic<int> ready{0}, different{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        ++ready;
        while (ready < kThreads) std::this_thread::yield();
        for (int call = 0; call < 2; ++call) different += run(*executable, {x})[0].same_bytes(expected) ? 0 : 1;
      });
    }
    for (std::thread& t : threads) t.join();
    EXPECT_EQ(different, 0);
    EXPECT_EQ(derived_use().made, before + 3);
    EXPECT_EQ(executable->use().planned.size(), 2U);
  }
}

TEST(PackedWeights, WhatNobodyUsesStaysWithinTheBudget) {
  const TemporaryFolder made;
  const std::filesystem::path& folder = made.path();
  write_safetensors(folder / "weights.safetensors", {{"w", numbers(DType::f32, {3, 2}, 9)}});
  auto executable = with_weights_of(folder, 1);
  for (int call = 0; call < 2; ++call) run(*executable, {numbers(DType::f32, {2, 3})});
  set_derived_budget(0);
  const size_t used = derived_use().bytes;
  EXPECT_GT(used, 0U);
  EXPECT_EQ(derived_use().unused_bytes, 0U);
  executable.reset();
  EXPECT_GT(derived_use().unused_bytes, 0U);
  set_derived_budget(0);
  EXPECT_LT(derived_use().bytes, used);
  set_derived_budget(size_t{256} << 20);
}

TEST(PackedWeights, SeveralThreadsRunSeveralExecutablesOfTheSameWeights) {
  const TemporaryFolder made;
  const std::filesystem::path& folder = made.path();
  write_safetensors(folder / "weights.safetensors", {{"w", numbers(DType::f32, {3, 2}, 11)}});
  const Arrays inputs{numbers(DType::f32, {40, 3})};
  const auto alone = with_weights_of(folder, 1), first = with_weights_of(folder, 2), second = with_weights_of(folder, 2);
  const Array expected = run(*alone, inputs)[0];
  std::vector<std::thread> threads;
  std::atomic<int> different{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int turn = 0; turn < 50; ++turn) {
        const int64_t rows = 1 + (t + turn) % 20;  // plans are made and dropped on the way
        run(*(t % 2 ? first : second), {numbers(DType::f32, {rows, 3})});
        if (!run(*(t % 2 ? second : first), inputs)[0].same_bytes(expected)) ++different;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(different, 0);
}

}  // namespace
}  // namespace pycandle
