// Neural-network functionals: decompositions run on small numbers, with sizes as numbers and as symbols. What torch
// computes is compared in tests/python/test_catalogue.py.
#include "primitive_runner.h"

namespace pycandle {
namespace {

// Decomposes until only primitives are left and runs them.
class Functional {
 public:
  // Sizes in `open` become symbols, equal sizes one symbol.
  Functional(std::string op, Arrays operands, Attributes attributes, Sizes open = {})
      : op_(std::move(op)), operands_(std::move(operands)), attributes_(std::move(attributes)), open_(std::move(open)) {}

  Arrays operator()() const {
    Graph whole;
    Bindings bindings;
    const Values inputs = add_inputs(whole, bindings);
    const Values outputs = Builder(whole, catalogue()).create_all(op_, inputs, attributes_);
    Graph parts;
    Builder b(parts, catalogue());
    Bindings unused;
    parts.outputs = expand(b, whole.nodes.back(), add_inputs(parts, unused));
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(parts.type(parts.outputs[i]).dtype, whole.type(outputs[i]).dtype) << op_;
      EXPECT_EQ(evaluate(parts.type(parts.outputs[i]).shape, bindings), evaluate(whole.type(outputs[i]).shape, bindings)) << op_;
    }
    return run.run_graph(parts, operands_, bindings);
  }

 private:
  Values add_inputs(Graph& graph, Bindings& bindings) const {
    Values inputs;
    for (const Array& x : operands_) {
      Type type{x.dtype(), {}};
      for (const int64_t size : x.shape()) {
        if (std::find(open_.begin(), open_.end(), size) == open_.end()) {
          type.shape.emplace_back(size);
        } else {
          const std::string name = "n" + std::to_string(size);
          bindings[name] = size;
          type.shape.push_back(Dim::symbol(name));
        }
      }
      inputs.push_back(graph.add_input(type));
    }
    return inputs;
  }

  static Values expand(Builder& b, const Node& node, const Values& operands) {
    Graph inner = b.graph();  // only for the values that the call refers to
    Builder scratch(inner, catalogue());
    const Values results = node.op->decomposition(scratch,
                                                  Call(*node.op, inner, operands, node.attributes, node.regions, &scratch));
    PerValue<ValueId> moved(inner.values.size(), kNoValue);
    for (size_t i = 0; i < b.graph().values.size(); ++i) moved[i] = static_cast<ValueId>(i);
    for (size_t n = b.graph().nodes.size(), end = inner.nodes.size(); n < end; ++n) {
      const Node& next = inner.nodes[n];
      Values from;
      for (const ValueId v : next.operands) from.push_back(v == kNoValue ? kNoValue : moved[v]);
      const Values made = next.op->is_primitive ? b.create_all(next.op->name, from, next.attributes, next.regions)
                                                : expand(b, next, from);
      for (size_t i = 0; i < made.size(); ++i) moved[next.results[i]] = made[i];
    }
    Values out;
    for (const ValueId v : results) out.push_back(moved[v]);
    return out;
  }

  std::string op_;
  Arrays operands_;
  Attributes attributes_;
  Sizes open_;
};

Arrays both_ways(const std::string& op, const Arrays& operands, const Attributes& attributes, const Sizes& open) {
  const Arrays fixed_sizes = Functional(op, operands, attributes)();
  const Arrays symbols = Functional(op, operands, attributes, open)();
  for (size_t i = 0; i < fixed_sizes.size(); ++i) EXPECT_TRUE(fixed_sizes[i].same_bytes(symbols[i])) << op << ", result " << i;
  return fixed_sizes;
}

Array ramp(Sizes shape, double scale = 0.1) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = scale * (static_cast<double>(i * 7 % 23) - 9);
  return f32(std::move(shape), values);
}

std::string error_from(const std::string& op, const std::vector<Type>& types, Attributes attributes = {}) {
  return error_of([&] {
    Graph graph;
    Values inputs;
    for (const Type& type : types) inputs.push_back(graph.add_input(type));
    Builder(graph, catalogue()).create_all(op, inputs, std::move(attributes));
  });
}

TEST(NeuralNetwork, LinearAddsTheBiasBeforeItRounds) {
  const Array x = numbers_of(DType::bf16, {1, 2}, {1, 1}), w = numbers_of(DType::bf16, {1, 2}, {256, 1}),
              bias = numbers_of(DType::bf16, {1}, {1});
  expect_values(Functional("linear", {x, w, bias}, {})()[0], {258});  // 257 alone would round to 256, and 257 again
}

TEST(NeuralNetwork, SizesMayBeSymbols) {
  both_ways("linear", {ramp({2, 5, 3}), ramp({4, 3}), ramp({4})}, {}, {2, 5});
  both_ways("matmul", {ramp({7, 1, 2, 3}), ramp({5, 3, 4})}, {}, {2, 3, 5, 7});
  both_ways("layer_norm", {ramp({2, 5, 4}), ramp({4}), ramp({4})}, {{"normalized_shape", Dims{4}}, {"eps", 1e-3}}, {2, 5});
  both_ways("group_norm", {ramp({2, 6, 5, 7})}, {{"groups", int64_t{3}}}, {2, 5, 7});
  both_ways("softmax", {ramp({2, 5})}, {{"dim", int64_t{-1}}}, {2, 5});
  both_ways("glu", {ramp({2, 6})}, {{"dim", int64_t{1}}}, {2});
  both_ways("scaled_dot_product_attention", {ramp({2, 6, 5, 4}), ramp({2, 3, 7, 4}), ramp({2, 3, 7, 4})},
            {{"is_causal", true}, {"enable_gqa", true}}, {2, 5, 7});
  both_ways("conv2d", {ramp({2, 4, 9, 7}), ramp({6, 2, 3, 3}), ramp({6})},
            {{"stride", Ints{2, 1}}, {"padding", Ints{1, 0}}, {"dilation", Ints{1, 2}}, {"groups", int64_t{2}}}, {2, 7, 9});
  both_ways(
      "conv_transpose1d", {ramp({2, 4, 7}), ramp({4, 3, 3})},
      {{"stride", Ints{2}}, {"padding", Ints{1}}, {"output_padding", Ints{1}}, {"dilation", Ints{1}}, {"groups", int64_t{2}}},
      {2, 7});
  both_ways("avg_pool2d", {ramp({2, 3, 9, 8})},
            {{"kernel_size", Ints{4, 3}},
             {"stride", Ints{3, 2}},
             {"padding", Ints{2, 1}},
             {"ceil_mode", true},
             {"count_include_pad", false}},
            {2, 8, 9});
  both_ways("max_pool2d", {ramp({2, 3, 9, 8})},
            {{"kernel_size", Ints{2, 3}},
             {"stride", Ints{2, 3}},
             {"padding", Ints{0, 1}},
             {"ceil_mode", true},
             {"dilation", Ints{1, 1}}},
            {2, 8, 9});
  both_ways("adaptive_avg_pool2d", {ramp({2, 3, 9, 8})}, {{"output_size", Dims{2, 3}}}, {8, 9});
  both_ways("interpolate", {ramp({2, 3, 5})}, {{"mode", std::string("linear")}, {"output_size", Dims{8}}}, {2, 5});
  both_ways("einsum", {ramp({5, 5, 2}), ramp({2, 7})}, {{"equation", std::string("iij,jk->ki")}}, {2, 5, 7});
  const Arrays lstm{ramp({5, 2, 3}), ramp({2, 2, 4}), ramp({2, 2, 4}), ramp({16, 3}), ramp({16, 4}), ramp({16}),
                    ramp({16}),      ramp({16, 3}),   ramp({16, 4}),   ramp({16}),    ramp({16})};
  both_ways("lstm", lstm, {{"bidirectional", true}}, {5});
}

TEST(NeuralNetwork, AQueryThatAttendsNowhereGivesZeros) {
  const Array x = ramp({2, 2}), mask = bools({2, 2}, {0, 0, 0, 1});
  expect_values(Functional("scaled_dot_product_attention", {x, x, x, mask}, {})()[0],
                {0, 0, load_double(x)[2], load_double(x)[3]});
}

TEST(NeuralNetwork, EinsumTakesDiagonals) {
  const Array x = f32({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8});
  expect_values(Functional("einsum", {x}, {{"equation", std::string("iii->i")}})()[0], {1, 8});
  expect_values(Functional("einsum", {x}, {{"equation", std::string("iij")}})()[0], {8, 10});
  EXPECT_NE(error_from("einsum", {{DType::f32, {1, 3}}}, {{"equation", std::string("ii->i")}}).find("einsum_c3"),
            std::string::npos);
  EXPECT_NE(error_from("einsum", {{DType::f32, {2, 3}}}, {{"equation", std::string("ij->k")}}).find("occurs in no operand"),
            std::string::npos);
  EXPECT_NE(error_from("einsum", {{DType::f32, {2, 3}}}, {{"equation", std::string("i->i")}}).find("more than its term"),
            std::string::npos);
  EXPECT_NE(error_from("einsum", {{DType::f32, {2, 3}}}, {{"equation", std::string("i?->i")}}).find("letters"),
            std::string::npos);
}

TEST(NeuralNetwork, AnLstmWithoutWeightsHalvesItsCell) {
  const auto zeros = [](Sizes shape) { return Array(DType::f32, std::move(shape)); };
  const Array cell = f32({1, 1, 1}, {2});
  const Arrays out = Functional("lstm", {zeros({2, 1, 3}), zeros({1, 1, 1}), cell, zeros({4, 3}), zeros({4, 1})},
                                {{"has_biases", false}})();
  expect_near(out[2], {0.5}, 1e-7);  // two steps
  expect_near(out[0], {0.5 * std::tanh(1.0), 0.5 * std::tanh(0.5)}, 1e-7);
}

TEST(NeuralNetwork, BetaZeroKeepsNanOut) {
  const Array x = f32({1, 1}, {kNan}), one = f32({1, 1}, {1});
  expect_values(Functional("addmm", {x, one, one}, {{"beta", int64_t{0}}})()[0], {1});
  expect_values(Functional("addmm", {x, one, one}, {})()[0], {kNan});
}

TEST(NeuralNetwork, ErrorsNameTheConstraint) {
  const auto names = [](const std::string& text, const char* constraint) {
    EXPECT_NE(text.find(constraint), std::string::npos) << text;
  };
  names(error_from("linear", {{DType::f32, {2, 3}}, {DType::f32, {4, 5}}}), "linear_c1");
  names(error_from("linear", {{DType::f32, {2, 3}}, {DType::f16, {4, 3}}}), "linear_c2");
  names(error_from("matmul", {{DType::f32, {2, 3}}, {DType::f32, {2, 3}}}), "matmul_c1");
  names(error_from("layer_norm", {{DType::f32, {2, 3}}}, {{"normalized_shape", Dims{2}}}), "layer_norm_c1");
  names(error_from("softmax", {{DType::f32, {2, 3}}}, {{"dim", int64_t{2}}}), "softmax_c1");
  names(error_from("gelu", {{DType::f32, {2}}}, {{"approximate", std::string("erf")}}), "gelu_c2");
  names(error_from("group_norm", {{DType::f32, {2, 5}}}, {{"groups", int64_t{2}}}), "group_norm_c1");
  names(error_from("conv1d", {{DType::f32, {2, 5}}, {DType::f32, {3, 2, 2}}},
                   {{"stride", Ints{0}}, {"padding", Ints{0}}, {"dilation", Ints{1}}}),
        "conv1d_c3");
  names(error_from("max_pool1d", {{DType::f32, {2, 5}}},
                   {{"kernel_size", Ints{2}}, {"stride", Ints{2}}, {"padding", Ints{2}}, {"dilation", Ints{1}}}),
        "max_pool1d_c3");
}

}  // namespace
}  // namespace pycandle
