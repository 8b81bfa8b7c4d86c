// A parameter whose values in the file are others than the model's: which one, which rows, what was done to it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "ir/builder.h"
#include "ops/core/catalogue.h"
#include "small_recording.h"
#include "verify/diagnosing/causes.h"

namespace pycandle {
namespace {

using Values64 = std::vector<double>;

std::vector<double> some_numbers(int64_t count, int seed) {
  const Floats floats = some_floats(static_cast<int>(count), seed);
  return {floats.begin(), floats.end()};
}

struct Layer {
  Sizes weight, bias, x;
  DType dtype = DType::f32;
};

const Layer kLinear{{6, 8}, {6}, {3, 7, 8}};
const Layer kNorm{{8}, {8}, {3, 7, 8}};

// What is said when the file has the model's weight, or its bias, changed in this way.
Causes said_of(const Layer& layer, const std::function<void(Values64&)>& change, bool is_bias = false) {
  Program p;
  p.name = "case";
  const auto shape = [](const Sizes& sizes) { return Shape(sizes.begin(), sizes.end()); };
  p.inputs.push_back({"x", p.graph.add_input({layer.dtype, shape(layer.x)}), {}, true});
  for (const auto& [name, sizes] : {std::pair{"weight", layer.weight}, {"bias", layer.bias}}) {
    Parameter& q = p.parameters.emplace_back();
    q.name = q.key = name;
    q.file = "weights.safetensors";
    q.type = {layer.dtype, shape(sizes)};
    q.value = p.graph.add_input(q.type);
  }
  Builder b(p.graph, catalogue());
  const Values operands{p.inputs[0].value, p.parameters[0].value, p.parameters[1].value};
  const bool is_norm = layer.weight.size() == 1;
  p.outputs.push_back({"output", is_norm ? b.create("layer_norm", operands, {{"normalized_shape", Dims{Dim(8)}}, {"eps", 0.001}})
                                         : b.create("linear", operands)});
  p.bind_outputs();
  Values64 weight = some_numbers(element_count(layer.weight), 5), bias = some_numbers(element_count(layer.bias), 9);
  const auto parameters = [&] {
    return memory_parameters(
        {{"weight", store(layer.dtype, layer.weight, weight)}, {"bias", store(layer.dtype, layer.bias, bias)}});
  };
  const std::vector<Array> inputs{store(layer.dtype, layer.x, some_numbers(element_count(layer.x), 3))};
  const Array golden = Trials(catalogue(), parameters(), {}).rounded(p, inputs);
  change(is_bias ? bias : weight);
  const Trials trials(catalogue(), parameters(), {});
  PerValue<bool> known(p.graph.values.size());
  known[p.inputs[0].value] = true;
  const Slice slice = Slicer(p, known).slice(p.outputs[0].value);
  Evidence evidence;
  evidence.golden = golden;
  const Judgement judgement = trials.judge(slice.program, inputs, evidence);
  EXPECT_FALSE(judgement.passed) << "the change changes nothing";
  return find_causes({.program = p,
                      .slice = slice,
                      .inputs = inputs,
                      .value = golden,
                      .floor_rms = judgement.floor_rms,
                      .floor_max = judgement.floor_max},
                     trials);
}

std::string sentence(const char* what) { return fmt::format("looks like {} where the model uses it unchanged", what); }

void scale(Values64& v, size_t first, size_t count, double factor) {
  for (size_t i = first; i < first + count; ++i) v[i] *= factor;
}

void round_to(Values64& v, int bits) {
  for (double& x : v) {
    int exponent = 0;
    const double mantissa = std::frexp(x, &exponent);
    x = std::ldexp(std::round(std::ldexp(mantissa, bits)), exponent - bits);
  }
}

struct Change {
  const char* what;                       // what is said
  const Layer& layer;
  std::function<void(Values64&)> change;
  bool is_bias = false;
};

TEST(StoredWeights, WhatWasDoneToAParameterIsSaid) {
  const auto swap_rows = [](Values64& v, size_t width) { std::swap_ranges(v.begin(), v.begin() + width, v.begin() + 4 * width); };
  const std::vector<Change> changes{
      {"weight negated", kLinear, [](Values64& v) { scale(v, 0, v.size(), -1); }},
      {"weight times 1.02", kLinear, [](Values64& v) { scale(v, 0, v.size(), 1.02); }},
      {"weight with row 2 times 1.5", kLinear, [](Values64& v) { scale(v, 16, 8, 1.5); }},
      {"weight with row 2 negated", kLinear, [](Values64& v) { scale(v, 16, 8, -1); }},
      {"weight with row 2 zero", kLinear, [](Values64& v) { scale(v, 16, 8, 0); }},
      {"weight with rows 0 and 4 swapped", kLinear, [&](Values64& v) { swap_rows(v, 8); }},
      {"weight with the halves of its columns swapped", kLinear,
       [](Values64& v) {
         for (auto row = v.begin(); row != v.end(); row += 8) std::rotate(row, row + 4, row + 8);
       }},
      {"weight times 1.0001", kLinear, [](Values64& v) { scale(v, 0, v.size(), 1.0001); }},
      {"weight with row 2 times 1.00003", kLinear, [](Values64& v) { scale(v, 16, 8, 1.00003); }},
      {"weight with columns 1 and 6 swapped", kLinear,
       [](Values64& v) {
         for (auto row = v.begin(); row != v.end(); row += 8) std::swap(row[1], row[6]);
       }},
      {"weight with column 5 zero", kLinear,
       [](Values64& v) {
         for (auto row = v.begin(); row != v.end(); row += 8) row[5] = 0;
       }},
      {"weight with its rows in reverse", kLinear,
       [](Values64& v) {
         for (size_t row = 0; row < 3; ++row)
           std::swap_ranges(v.begin() + static_cast<long>(row) * 8, v.begin() + static_cast<long>(row + 1) * 8,
                            v.begin() + static_cast<long>(5 - row) * 8);
       }},
      {"weight rounded to 5 significant bits", kLinear, [](Values64& v) { round_to(v, 5); }},
      {"weight rounded to 14 significant bits", kLinear, [](Values64& v) { round_to(v, 14); }},
      {"bias all zeros", kLinear, [](Values64& v) { scale(v, 0, v.size(), 0); }, true},
      {"bias negated", kLinear, [](Values64& v) { scale(v, 0, v.size(), -1); }, true},
      {"bias times 3", kLinear, [](Values64& v) { scale(v, 0, v.size(), 3); }, true},
      {"weight times 1.02", kNorm, [](Values64& v) { scale(v, 0, v.size(), 1.02); }},
      {"weight with row 3 zero", kNorm, [](Values64& v) { v[3] = 0; }},
      {"weight with rows 0 and 4 swapped", kNorm, [&](Values64& v) { swap_rows(v, 1); }},
      {"bias with row 4 times 0.5", kNorm, [](Values64& v) { scale(v, 4, 1, 0.5); }, true},
  };
  for (const Change& c : changes) {
    const Causes causes = said_of(c.layer, c.change, c.is_bias);
    ASSERT_NE(causes.only(), nullptr) << c.what << ": " << causes.text();
    EXPECT_EQ(causes.only()->kind, "stored weight") << causes.text();
    EXPECT_EQ(causes.only()->parameter, c.is_bias ? "bias" : "weight");
    EXPECT_EQ(causes.text(), sentence(c.what));
  }
}

TEST(StoredWeights, InBf16AFactorOfTwoPercentIsStillToldFromRounding) {
  Layer layer = kLinear;
  layer.dtype = DType::bf16;
  const Causes causes = said_of(layer, [](Values64& v) { scale(v, 0, v.size(), 1.04); });
  EXPECT_EQ(causes.text(), sentence("weight times 1.04"));
}

TEST(StoredWeights, NoiseInAParameterIsGivenNoCause) {
  const Causes causes = said_of(kLinear, [](Values64& v) {
    const Values64 noise = some_numbers(static_cast<int64_t>(v.size()), 77);
    for (size_t i = 0; i < v.size(); ++i) v[i] += 0.05 * noise[i];
  });
  EXPECT_TRUE(causes.found.empty()) << causes.text();
}

}  // namespace
}  // namespace pycandle
