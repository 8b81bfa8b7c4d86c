// Every op that looks for itself finds itself: in its decomposition, in each of its spellings, and in the cases of
// tests/passes/recognise*.ptir. Both sides are run without rounding and must agree.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "backends/reference/reference.h"
#include "base/file.h"
#include "growth.h"
#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/core/catalogue.h"
#include "passes/normal_form.h"
#include "passes/passes.h"
#include "passes/pipeline.h"
#include "runtime/model.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

std::vector<Array> in_f64(const Program& p, const Model::Tensors& inputs) {
  RunRequest request;
  request.inputs = ordered_inputs(p, inputs);
  const auto nothing = memory_parameters({});
  const std::vector<ReferenceMode> modes{{ReferenceMode::Kind::rounded, 0}, {ReferenceMode::Kind::f64, 0}};
  return run_reference_modes(decompose_to_primitives(p, catalogue()), *nothing, modes, request).at(1).outputs;
}

void expect_equal_in_f64(const Program& before, const Program& after) {
  const Model::Tensors inputs = random_inputs(before, 7);
  const std::vector<Array> expected = in_f64(before, inputs), got = in_f64(after, inputs);
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> a = load_double(expected[i]), b = load_double(got[i]);
    ASSERT_EQ(a.size(), b.size());
    double scale = 1e-3;
    for (double v : a) scale = std::max(scale, std::isfinite(v) ? std::abs(v) : 0);
    for (size_t k = 0; k < a.size(); ++k) {
      if (std::isnan(a[k]) && std::isnan(b[k])) continue;  // where eager attention attends nowhere
      ASSERT_NEAR(a[k], b[k], 1e-6 * scale) << "output " << i << " at " << k;
    }
  }
}

// ---- spellings

struct Sample {
  std::string op;
  std::vector<Type> operands;
  Attributes attributes;
};

Type floats(Shape shape, DType dtype = DType::f32) { return {dtype, std::move(shape)}; }

const std::vector<Sample>& samples() {
  const Dim s = Dim::symbol("s0");
  const Type x = floats({s, 6, 8}), half = floats({s, 6, 8}, DType::bf16);
  const Type vector = floats({8}), half_vector = floats({8}, DType::bf16);
  const Dims last{Dim(8)};
  const Type q = floats({s, 4, 6, 8}), k = floats({s, 4, 5, 8});
  const Type half_q = floats({s, 4, 6, 8}, DType::bf16), half_k = floats({s, 4, 5, 8}, DType::bf16);
  static const std::vector<Sample> all = {
      {"gelu", {x}, {{"approximate", std::string("none")}}},
      {"gelu", {x}, {{"approximate", std::string("tanh")}}},
      {"gelu", {half}, {{"approximate", std::string("tanh")}}},
      {"quick_gelu", {x}, {}},
      {"sigmoid", {x}, {}},
      {"silu", {x}, {}},
      {"silu", {half}, {}},
      {"mish", {x}, {}},
      {"hardsigmoid", {x}, {}},
      {"hardswish", {x}, {}},
      {"glu", {x}, {{"dim", int64_t{-1}}}},
      {"glu", {x}, {{"dim", int64_t{1}}}},
      {"snake", {x, floats({1, 6, 1})}, {{"eps", 1e-9}}},
      {"snake", {x, floats({1, 6, 1}), floats({1, 6, 1})}, {{"eps", 1e-9}}},
      {"snake", {x, floats({8})}, {{"eps", 0.0}}},
      {"softmax", {x}, {{"dim", int64_t{-1}}}},
      {"softmax", {half}, {{"dim", int64_t{1}}}},
      {"log_softmax", {x}, {{"dim", int64_t{-1}}}},
      {"layer_norm", {x, vector, vector}, {{"normalized_shape", last}, {"eps", 1e-5}}},
      {"layer_norm", {x, vector}, {{"normalized_shape", last}, {"eps", 1e-5}}},
      {"layer_norm", {x}, {{"normalized_shape", last}, {"eps", 1e-5}}},
      {"layer_norm", {half, half_vector, half_vector}, {{"normalized_shape", last}, {"eps", 1e-5}}},
      {"layer_norm", {x, floats({6, 8}), floats({6, 8})}, {{"normalized_shape", Dims{Dim(6), Dim(8)}}, {"eps", 1e-6}}},
      {"rms_norm", {x, vector}, {{"normalized_shape", last}, {"eps", 1e-6}}},
      {"rms_norm", {x}, {{"normalized_shape", last}, {"eps", 1e-6}}},
      {"rms_norm", {x, vector}, {{"normalized_shape", last}, {"eps", 1e-6}, {"weight_offset", 1.0}}},
      {"rms_norm", {half, half_vector}, {{"normalized_shape", last}, {"eps", 1e-6}}},
      {"rms_norm", {half, half_vector}, {{"normalized_shape", last}, {"eps", 1e-6}, {"round_before_weight", true}}},
      {"rms_norm", {half, half_vector}, {{"normalized_shape", last}, {"eps", 1e-6}, {"weight_offset", 1.0}}},
      {"rms_norm", {half, half_vector}, {{"normalized_shape", last}, {"eps", 1e-6}, {"compute_dtype", DType::bf16}}},
      {"scaled_dot_product_attention", {q, k, k}, {{"scale", 0.3}, {"eager", true}}},
      {"scaled_dot_product_attention", {q, k, k, floats({s, 1, 6, 5})}, {{"scale", 0.125}, {"eager", true}}},
      {"scaled_dot_product_attention", {q, k, k, Type{DType::boolean, {Dim(6), Dim(5)}}}, {{"scale", 0.3}, {"eager", true}}},
      {"scaled_dot_product_attention", {half_q, half_k, half_k}, {{"scale", 0.3}, {"eager", true}}},
      {"rotary_embedding", {floats({s, 4, 6, 8}), floats({1, 6, 8}), floats({1, 6, 8})}, {{"unsqueeze_dim", int64_t{1}}}},
      {"rotary_embedding", {floats({s, 4, 6, 8}), floats({6, 8}), floats({6, 8})}, {}},
      {"rotary_embedding", {floats({s, 4, 6, 8}), floats({6, 4}), floats({6, 4})}, {{"paired", true}}},
      {"rotary_embedding", {floats({s, 4, 6, 8}), floats({6, 4}), floats({6, 4})}, {{"interleaved", true}, {"paired", true}}},
      {"rotary_embedding", {floats({s, 6, 4, 8}), floats({1, 6, 1, 8}), floats({1, 6, 1, 8})}, {{"interleaved", true}}},
      {"rotary_embedding", {floats({s, 4, 6, 16}), floats({1, 6, 8}), floats({1, 6, 8})}, {{"unsqueeze_dim", int64_t{1}}}},
  };
  return all;
}

// The call as one node, or spelled out as `spelling` does.
Program program_of(const Sample& sample, const std::function<Values(Builder&, const Call&)>* spelling) {
  Program p;
  p.name = sample.op;
  p.symbols.push_back({"s0", {1, {}}, 2, "x0", 0});
  Values operands;
  for (size_t i = 0; i < sample.operands.size(); ++i) {
    operands.push_back(p.graph.add_input(sample.operands[i]));
    p.inputs.push_back({"x" + std::to_string(i), operands.back(), {}, true});
  }
  const SymbolRanges ranges = p.ranges();
  Builder b(p.graph, catalogue(), &p.checks, &ranges);
  const ValueId call = b.create(sample.op, operands, sample.attributes);
  if (spelling) {
    const Node node = p.graph.nodes.back();
    p.outputs.push_back({"y", (*spelling)(b, Call(*node.op, p.graph, node.operands, node.attributes, node.regions, &b)).at(0)});
  } else {
    p.outputs.push_back({"y", call});
  }
  p.bind_outputs();
  return remove_unused(std::move(p), catalogue());
}

TEST(Recognition, EveryOpFindsItselfInItsDecompositionAndInEverySpelling) {
  for (const Sample& sample : samples()) {
    const OpDef& op = catalogue().at(sample.op);
    const Program whole = program_of(sample, nullptr);
    std::vector<std::function<Values(Builder&, const Call&)>> spellings = op.spellings;
    spellings.insert(spellings.begin(), op.decomposition);
    for (size_t i = 0; i < spellings.size(); ++i) {
      SCOPED_TRACE(print(whole) + "spelling " + std::to_string(i));
      const Program spelled = program_of(sample, &spellings[i]);
      expect_equal_in_f64(spelled, whole);
      const Program found = recognise(spelled, catalogue());
      verify(found, "recognise");
      EXPECT_EQ(print(found), print(whole)) << print(spelled);
    }
  }
}

TEST(Recognition, EveryOpThatLooksForItselfHasASample) {
  for (const auto& op : catalogue().all()) {
    if (!op->propose && !op->calls_on) continue;
    const bool has_sample = std::any_of(samples().begin(), samples().end(), [&](const Sample& s) { return s.op == op->name; });
    EXPECT_TRUE(has_sample) << op->name;
  }
}

// ---- the written cases

TEST(Recognition, ProgramsBeforeAndAfterComputeTheSame) {
  int cases = 0;
  for (const auto& entry : fs::directory_iterator(fs::path(PYCANDLE_TEST_DIR) / "passes")) {
    if (!entry.path().stem().string().starts_with("recognise")) continue;
    std::string title, text;
    const auto run = [&] {
      if (text.empty()) return;
      SCOPED_TRACE(entry.path().filename().string() + ": " + title);
      const Program before = parse_program(text, catalogue(), title);
      if (!before.parameters.empty()) return;  // its values are nowhere
      expect_equal_in_f64(before, run_program_pipeline(before, catalogue()));
      ++cases;
    };
    bool is_before = false;
    std::istringstream lines(read_text(entry.path()));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("// before: ")) {
        run();
        title = line.substr(11);
        text.clear();
        is_before = true;
      } else if (line == "// after") {
        is_before = false;
      } else if (is_before) {
        text += line + "\n";
      }
    }
    run();
  }
  EXPECT_GT(cases, 5);
}

// ---- the normal form

TEST(NormalForm, ASumOfNumbersKnowsHowManyThereAre) {
  NormalForm terms(catalogue());
  const auto sum_of_ones = [&](int64_t count) {
    Graph g;
    Builder b(g, catalogue());
    NormalForm::Known nothing;
    return terms.of(g, b.sum(b.full(1.0, DType::f32, {Dim(2), Dim(count)}), {1}), nothing);
  };
  EXPECT_EQ(sum_of_ones(6), sum_of_ones(6));
  EXPECT_NE(sum_of_ones(6), sum_of_ones(8));
}

// ---- taps and modules

const char* const kModules = R"ptir(ptir.v1 program "modules"

input %0 "x": f32[2, 8]

%1 = tanh(%0): f32[2, 8]  loc(#1, _:0)
%2 = sigmoid(%1): f32[2, 8]  loc(#2, _:0)
%3 = mul(%1, %2): f32[2, 8]  loc(#0, _:0)
%4 = exp(%3): f32[2, 8]  loc(#3, _:0)
%5 = sigmoid(%4): f32[2, 8]  loc(#3, _:0)
%6 = mul(%4, %5): f32[2, 8]  loc(#0, _:0)

output "y" %6

tap "gate@0/output" %2 key "gate"
tap "big@0/output" %5 key "big"

call #0 "" @0 class "Model"
call #1 "first" @0 class "Tanh" parent #0
call #2 "gate" @0 class "Sigmoid" parent #0
call #3 "big" @0 class "Big" parent #0
)ptir";

TEST(Recognition, TakesInWholeModulesAndSaysSoButNoPartOfOne) {
  const Program p = recognise(parse_program(kModules, catalogue()), catalogue());
  verify(p, "recognise");
  std::vector<std::string> ops;
  for (const Node& node : p.graph.nodes) ops.push_back(node.op->name);
  // gate@0 is inside silu as a whole; big@0 gives a value of its own, and keeps it.
  EXPECT_EQ(ops, (std::vector<std::string>{"tanh", "silu", "exp", "sigmoid", "mul"}));
  ASSERT_EQ(p.taps.size(), 2u);
  EXPECT_TRUE(p.taps[0].inside);
  EXPECT_EQ(p.taps[0].value, p.graph.nodes[1].results[0]);
  EXPECT_FALSE(p.taps[1].inside);
  EXPECT_TRUE(identical(parse_program(print(p), catalogue()), p));
}

// ---- size

Program chain(size_t nodes) {
  Program p;
  p.name = "chain";
  const ValueId x = p.graph.add_input({DType::f32, {Dim(4), Dim(8)}});
  const ValueId w = p.graph.add_input({DType::f32, {Dim(8)}});
  p.inputs = {{"x", x, {}, true}, {"w", w, {}, true}};
  Builder b(p.graph, catalogue());
  ValueId v = x;
  while (p.graph.nodes.size() < nodes) {
    v = b.add(v, b.mul(b.mul(v, 0.5), b.add(b.erf(b.mul(v, std::sqrt(0.5))), 1.0)));
    v = b.mul(b.mul(v, b.rsqrt(b.add(b.mean(b.square(v), {-1}), 1e-6))), w);
    v = b.add(v, b.mul(v, b.tanh(v)));
  }
  p.outputs = {{"y", v}};
  p.bind_outputs();
  return p;
}

TEST(Recognition, TakesTimeInProportionToTheProgram) {
  const auto run = [](int nodes) {
    const Program p = chain(static_cast<size_t>(nodes));
    const Program q = run_program_pipeline(p, catalogue());
    EXPECT_LT(q.graph.nodes.size(), p.graph.nodes.size() / 3);
  };
  EXPECT_LT(growth_of_four_times(run, 5000), 8);
}

}  // namespace
}  // namespace pycandle
