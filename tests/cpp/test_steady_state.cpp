// What a call of a compiled program asks of the heap once its plan is made: the handles of its results, and nothing for
// the layers between.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "plan_cases.h"

namespace {

std::atomic<size_t> asked = 0;

void* counted(size_t size, size_t alignment = alignof(std::max_align_t)) {
  ++asked;
  if (void* at = std::aligned_alloc(alignment, (size + alignment) / alignment * alignment)) return at;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t size) { return counted(size); }
void* operator new[](size_t size) { return counted(size); }
void* operator new(size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new[](size_t size, const std::nothrow_t&) noexcept { return counted(size); }
void* operator new(size_t size, std::align_val_t a) { return counted(size, static_cast<size_t>(a)); }
void* operator new[](size_t size, std::align_val_t a) { return counted(size, static_cast<size_t>(a)); }
[[gnu::noinline]] void operator delete(void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete[](void* at) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, size_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete[](void* at, size_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, std::align_val_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete[](void* at, std::align_val_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete(void* at, size_t, std::align_val_t) noexcept { std::free(at); }
[[gnu::noinline]] void operator delete[](void* at, size_t, std::align_val_t) noexcept { std::free(at); }

namespace pycandle {
namespace {

// Layers of a transformer: norm, projections, attention, residual, GELU, a convolution over the tokens, a softmax.
Program layers(int count) {
  std::string body = R"(input %0 "x": f32[1, 9, 24]

parameter %1 "square": f32[24, 24]
parameter %2 "wide": f32[40, 24]
parameter %3 "narrow": f32[24, 40]
parameter %4 "bias": f32[24]
parameter %5 "filter": f32[24, 24, 3]

)";
  int x = 0, next = 6;
  const auto add = [&](const std::string& form, const std::string& type) {
    body += fmt::format("%{} = {}: {}\n", next, form, type);
    return next++;
  };
  const std::string tokens = "f32[1, 9, 24]", heads = "f32[1, 3, 9, 8]";
  for (int i = 0; i < count; ++i) {
    const int n = add(fmt::format("layer_norm(%{}, %4, %4) {{normalized_shape = [24], eps = 1e-05}}", x), tokens);
    int parts[3];
    for (int& part : parts) {
      const int projected = add(fmt::format("linear(%{}, %1, %4)", n), tokens);
      part = add(fmt::format("split_heads(%{}) {{heads = 3}}", projected), heads);
    }
    const int a = add(
        fmt::format("scaled_dot_product_attention(%{}, %{}, %{}, _, _, _) {{is_causal = true}}", parts[0], parts[1], parts[2]),
        heads);
    const int m = add(fmt::format("merge_heads(%{})", a), tokens);
    const int o = add(fmt::format("linear(%{}, %1, %4)", m), tokens);
    const int r = add(fmt::format("add(%{}, %{})", x, o), tokens);
    const int w = add(fmt::format("linear(%{}, %2, _)", r), "f32[1, 9, 40]");
    const int g = add(fmt::format("gelu(%{})", w), "f32[1, 9, 40]");
    const int d = add(fmt::format("linear(%{}, %3, %4)", g), tokens);
    const int t = add(fmt::format("transpose(%{}) {{permutation = [0, 2, 1]}}", d), "f32[1, 24, 9]");
    const int c = add(fmt::format("conv1d(%{}, %5, %4) {{padding = [1]}}", t), "f32[1, 24, 9]");
    const int s = add(fmt::format("softmax(%{}) {{dim = 1}}", c), "f32[1, 24, 9]");
    const int b = add(fmt::format("transpose(%{}) {{permutation = [0, 2, 1]}}", s), tokens);
    x = add(fmt::format("add(%{}, %{})", r, b), tokens);
  }
  return parsed(body + fmt::format("\noutput \"y\" %{}\n", x));
}

// How often the third call asks the heap for memory.
size_t asked_by_a_call(int layer_count, int threads) {
  PipelineOptions options;
  options.threads = threads;
  const auto weights = memory_parameters({{"square", numbers(DType::f32, {24, 24}, 1)},
                                          {"wide", numbers(DType::f32, {40, 24}, 2)},
                                          {"narrow", numbers(DType::f32, {24, 40}, 3)},
                                          {"bias", numbers(DType::f32, {24}, 4)},
                                          {"filter", numbers(DType::f32, {24, 24, 3}, 5)}});
  const auto executable = cpu_backend().compile(layers(layer_count), catalogue(), weights, options);
  RunRequest request;
  request.inputs = {numbers(DType::f32, {1, 9, 24}, 6)};
  for (int i = 0; i < 2; ++i) executable->run(request);
  const size_t before = asked;
  executable->run(request);
  return asked - before;
}

TEST(SteadyState, LayersAskTheHeapForNothing) {
  for (const int threads : {1, 2}) {
    const size_t one = asked_by_a_call(1, threads);
    EXPECT_EQ(asked_by_a_call(8, threads), one);
    EXPECT_GT(one, 0u);  // the result's own handle: the counter counts
    EXPECT_LE(one, 12u);
  }
}

}  // namespace
}  // namespace pycandle
