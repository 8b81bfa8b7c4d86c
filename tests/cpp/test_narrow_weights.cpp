// Programs whose weights are kept in fewer bytes: the cpu backend reads packed ones and gives what the reference gives with
// the same weights.
#include <gtest/gtest.h>

#include "params/derived.h"
#include "plan_cases.h"

namespace pycandle {
namespace {

// A tied embedding, projections that are joined for attention, both orders of a weight, an epilogue.
const char* const kModel = R"(symbol s0 in [1, 64] example 2 from "ids" axis 0

input %0 "ids": i64[s0]

parameter %1 "table": f32[50, 64]
parameter %2 "q": f32[64, 64]
parameter %3 "k": f32[64, 64]
parameter %4 "v": f32[64, 64]
parameter %5 "up": f32[64, 200]
parameter %6 "down": f32[64, 200]
parameter %7 "bias": f32[64]

%8 = embedding(%1, %0): f32[s0, 64]
%9 = linear(%8, %2, %7): f32[s0, 64]
%10 = linear(%8, %3, %7): f32[s0, 64]
%11 = linear(%8, %4, %7): f32[s0, 64]
%12 = reshape(%9) {shape = [1, 1, s0, 64]}: f32[1, 1, s0, 64]
%13 = reshape(%10) {shape = [1, 1, s0, 64]}: f32[1, 1, s0, 64]
%14 = reshape(%11) {shape = [1, 1, s0, 64]}: f32[1, 1, s0, 64]
%15 = scaled_dot_product_attention(%12, %13, %14, _, _, _) {is_causal = true}: f32[1, 1, s0, 64]
%16 = reshape(%15) {shape = [s0, 64]}: f32[s0, 64]
%17 = linear(%16, %5, _) {weight_order = "in_out"}: f32[s0, 200]
%18 = gelu(%17): f32[s0, 200]
%19 = linear(%18, %6, %7): f32[s0, 64]
%20 = add(%19, %16): f32[s0, 64]
%21 = linear(%20, %1, _): f32[s0, 50]

output "logits" %21
)";

std::shared_ptr<const ParameterSource> weights(const Program& p) {
  Weights all;
  for (const Parameter& q : p.parameters) {
    std::vector<double> values = load_double(numbers(DType::f32, evaluate(q.type.shape, {}), all.size() + 1));
    for (double& v : values) v /= 8;
    all[q.name] = store(DType::f32, evaluate(q.type.shape, {}), values);
  }
  return memory_parameters(std::move(all));
}

Array logits(const Backend& backend, WeightFormat format, const Array& ids, int threads = 1) {
  const Program p = parsed(kModel);
  PipelineOptions options;
  options.weights = format;
  options.threads = threads;
  return run(*backend.compile(p, catalogue(), weights(p), options), {ids})[0];
}

double distance(const Array& a, const Array& b) {
  const std::vector<double> x = load_double(a), y = load_double(b);
  double off = 0, size = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    off += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(off / size);
}

TEST(NarrowWeights, GiveWhatTheReferenceGivesWithTheSameWeights) {
  // One row, a few, and enough for kernels that make 16-bit numbers of the activations.
  for (const int64_t rows : {1, 2, 20}) {
    const Array ids = numbers(DType::i64, {rows}), exact = logits(reference_backend(), WeightFormat::f32, ids);
    for (const auto& [format, own, loses_least, loses_most] :
         {std::tuple(WeightFormat::f32, 1e-6, 0.0, 0.0), std::tuple(WeightFormat::bf16, 6e-3, 2e-4, 8e-3),
          std::tuple(WeightFormat::f16, 1e-6, 2e-5, 1e-3), std::tuple(WeightFormat::int8, 1e-4, 1e-3, 2e-2),
          std::tuple(WeightFormat::int4, 1e-4, 1e-2, 0.4)}) {
      SCOPED_TRACE(fmt::format("{}, {} rows", name_of(format), rows));
      const Array asked = logits(reference_backend(), format, ids), ours = logits(cpu_backend(), format, ids);
      EXPECT_LE(distance(ours, asked), own);
      EXPECT_GE(distance(asked, exact), loses_least) << "the weights were not rounded";
      EXPECT_LE(distance(asked, exact), loses_most);
      EXPECT_TRUE(logits(cpu_backend(), format, ids, 2).same_bytes(ours)) << "two threads";
    }
  }
}

TEST(NarrowWeights, OneFormServesTheFirstCallAndLaterOnesAndATiedEmbedding) {
  const Program p = parsed(kModel);
  PipelineOptions options;
  options.threads = 1;
  options.weights = WeightFormat::int8;
  const auto executable = cpu_backend().compile(p, catalogue(), weights(p), options);
  const Array ids = numbers(DType::i64, {3});
  const size_t before = derived_use().made;
  const Array first = run(*executable, {ids})[0];
  EXPECT_EQ(derived_use().made, before + 4) << "the table, queries with keys and values, up and down";
  EXPECT_TRUE(run(*executable, {ids})[0].same_bytes(first));
  run(*executable, {numbers(DType::i64, {9})});
  EXPECT_EQ(derived_use().made, before + 4);
  EXPECT_EQ(executable->use().planned.size(), 2U) << "the second call needs no other plan";
  EXPECT_LT(executable->use().weight_bytes, size_t{64 * (50 + 3 * 64 + 400)} * 3 / 2) << "about a byte each";
}

TEST(NarrowWeights, AnIndexThatIsNoneIsRefusedAsEver) {
  const Array ids = store(DType::i64, {1}, std::vector<double>{50});
  EXPECT_THROW(logits(cpu_backend(), WeightFormat::int8, ids), Error);
}

}  // namespace
}  // namespace pycandle
