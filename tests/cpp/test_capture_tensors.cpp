// Lazy tensors: what an expression becomes, and what it says when it cannot.
#include <gtest/gtest.h>

#include <sstream>

#include "error_of.h"
#include "ir/graph.h"
#include "ir/op_def.h"
#include "params/derived.h"
#include "pycandle/control_flow.h"
#include "pycandle/functional.h"
#include "pycandle/model.h"
#include "pycandle/nn.h"
#include "pycandle/recorded.h"
#include "small_recording.h"

namespace pycandle {
namespace {

using front::compile;
using front::Compiled;
using front::Ellipsis;
using front::NewAxis;
using front::Signature;
using front::Slice;
using front::State;
using front::Tensor;
using front::Weights;
namespace functional = front::functional;
namespace nn = front::nn;

Array numbers(const Sizes& shape, double first = 0, double step = 1) {
  std::vector<double> values(static_cast<size_t>(element_count(shape)));
  for (size_t i = 0; i < values.size(); ++i) values[i] = first + step * static_cast<double>(i);
  return store(DType::f32, shape, values);
}

Signature vectors() { return {{"x", DType::f32, {"batch", 4}}, {"y", DType::f32, {"batch", 4}}}; }

// The type that f gives for x, written out.
template <class F> std::string type_of(const F& f, Signature signature = vectors()) {
  std::string text;
  compile([&](const Tensor& x, const Tensor& y) { return text = f(x, y).type_text(), x; }, std::move(signature));
  return text;
}

TEST(Tensors, PromoteAndBroadcastAsTorch) {
  const Signature signature{{"x", DType::i64, {"batch", 4}}, {"y", DType::bf16, {4}}};
  EXPECT_EQ(type_of([](auto x, auto y) { return x + y; }, signature), "bf16[batch, 4]");
  EXPECT_EQ(type_of([](auto x, auto) { return x * 2; }, signature), "i64[batch, 4]");
  EXPECT_EQ(type_of([](auto x, auto) { return x * 2.5; }, signature), "f32[batch, 4]");
  EXPECT_EQ(type_of([](auto x, auto) { return x / 2; }, signature), "f32[batch, 4]");
  EXPECT_EQ(type_of([](auto x, auto y) { return x.unsqueeze(1) < y; }, signature), "bool[batch, 1, 4]");
  EXPECT_EQ(type_of([](auto x, auto) { return x + x.dim(0); }, signature), "i64[batch, 4]");
  EXPECT_EQ(type_of([](auto x, auto y) { return front::where(x == 0, y, 1); }, signature), "bf16[batch, 4]");
}

TEST(Tensors, MoveAsTorch) {
  EXPECT_EQ(type_of([](auto x, auto) { return x.reshape({-1, 2}); }), "f32[2*batch, 2]");
  EXPECT_EQ(type_of([](auto x, auto) { return x.unflatten(-1, {2, -1}).flatten(0, 1); }), "f32[2*batch, 2]");
  EXPECT_EQ(type_of([](auto x, auto) { return x.unsqueeze(1).expand({-1, 3, -1}); }), "f32[batch, 3, 4]");
  EXPECT_EQ(type_of([](auto x, auto) { return x.t(); }), "f32[4, batch]");
  EXPECT_EQ(type_of([](auto x, auto) { return x[{Slice(), Slice(1, 3), NewAxis}]; }), "f32[batch, 2, 1]");
  EXPECT_EQ(type_of([](auto x, auto) { return x[{Ellipsis, -1}]; }), "f32[batch]");
  EXPECT_EQ(type_of([](auto x, auto) { return x[{Slice(1)}]; }), "f32[batch - 1, 4]");
  EXPECT_EQ(type_of([](auto x, auto) { return x.slice(1, -3, -1); }), "f32[batch, 2]");
  EXPECT_EQ(type_of([](auto x, auto) { return x.mean({-1}, true); }), "f32[batch, 1]");
  EXPECT_EQ(type_of([](auto x, auto y) { return front::cat({x, y}, 0); }), "f32[2*batch, 4]");
  EXPECT_EQ(type_of([](auto x, auto y) { return front::stack({x, y}, -1); }), "f32[batch, 4, 2]");
  EXPECT_EQ(type_of([](auto x, auto) {
              auto [left, right] = x.template chunk<2>(1);
              return left + right;
            }),
            "f32[batch, 2]");
  EXPECT_EQ(type_of([](auto x, auto) { return front::arange(x.dim(0) * 2); }), "i64[2*batch]");
}

TEST(Tensors, RunForEverySizeThatTheSignatureAllows) {
  const Compiled run = compile([](const Tensor& x, const Tensor& y) { return (x + y).sum({0}); }, vectors());
  for (int64_t batch : {1, 2, 7}) {
    const Array sum = run(numbers({batch, 4}), numbers({batch, 4}));
    EXPECT_EQ(sum.shape(), Sizes{4});
    EXPECT_EQ(load_double(sum)[0], static_cast<double>(4 * batch * (batch - 1)));
  }
  EXPECT_EQ(run.captures(), 1U);
}

TEST(Tensors, WithoutASignatureAreCapturedOnceForEachShape) {
  const Compiled run = compile([](const Tensor& x) { return x * 2; });
  for (int turn = 0; turn < 2; ++turn) {
    for (int64_t size : {2, 3}) EXPECT_EQ(run(numbers({size})).shape(), Sizes{size});
  }
  EXPECT_EQ(run.captures(), 2U);
}

TEST(Dims, ThatAreSymbolicCannotBeBranchedOn) {
  const auto branch = [](const Tensor& x, const Tensor&) { return x.dim(0) > 3 ? x : x + 1; };
  const Error error = error_of([&] { compile(branch, vectors()); });
  EXPECT_NE(error.text().find("batch"), std::string::npos) << error.text();
  EXPECT_NE(error.hint().find("specialise"), std::string::npos);
}

TEST(Dims, WhoseRangeDecidesCanBeBranchedOn) {
  const Signature signature{{"x", DType::f32, {front::Symbol{.name = "n", .min = 4}}}};
  const Compiled run = compile([](const Tensor& x) { return x.dim(0) > 3 ? x * 2 : x; }, signature);
  EXPECT_EQ(load_double(run(numbers({5})))[4], 8);
  EXPECT_EQ(error_of([&] { run(numbers({3})); }).code(), ErrorCode::bad_input);
}

TEST(Dims, ThatAreSpecialisedRefuseOtherSizes) {
  const Signature signature{{"x", DType::f32, {front::Symbol{.name = "n", .example = 3}}}};
  const Compiled run = compile(
      [](const Tensor& x) {
        Tensor sum = x.select(0, 0);
        for (int64_t i = 1; i < x.dim(0).specialise(); ++i) sum = sum + x.select(0, i);
        return sum;
      },
      signature);
  EXPECT_EQ(load_double(run(numbers({3})))[0], 3);
  const Error error = error_of([&] { run(numbers({4})); });
  EXPECT_NE(error.text().find("fixed to 3"), std::string::npos) << error.text();
}

struct Projection : nn::Module<Projection> {
  explicit Projection(const front::Weights& w) : Module(w), weight(w.get("weight")) {}
  Tensor forward(const Tensor& x) const { return front::matmul(x, weight); }
  Tensor weight;
};
struct Model : nn::Module<Model> {
  explicit Model(const front::Weights& w) : Module(w), first(w / "layers" / 0) {}
  Tensor forward(const Tensor& x) const { return first(x); }
  Projection first;
};

TEST(Errors, NameBothShapesTheFunctionalAndTheModule) {
  const Model model(front::Weights::from({{"layers.0.weight", numbers({5, 2})}}));
  const Error error = error_of([&] { compile(model, {{"x", DType::f32, {"batch", 4}}}); });
  EXPECT_EQ(error.op(), "matmul");
  EXPECT_EQ(error.module_path(), "layers.0");
  EXPECT_NE(error.text().find("f32[batch, 4]"), std::string::npos) << error.text();
  EXPECT_NE(error.text().find("f32[5, 2]"), std::string::npos) << error.text();
}

TEST(Errors, OfBroadcastingNameBothShapes) {
  const Error error = error_of(
      [&] { compile([](const Tensor& x, const Tensor& y) { return x + y.slice(1, 0, 3); }, vectors()); });
  EXPECT_EQ(error.op(), "add");
  EXPECT_NE(error.text().find("[batch, 4]"), std::string::npos) << error.text();
  EXPECT_NE(error.text().find("[batch, 3]"), std::string::npos) << error.text();
}

TEST(Errors, SayHowManyInputsAModelTakes) {
  const auto two = [](const Tensor& x, const Tensor& y) { return x + y; };
  EXPECT_EQ(error_of([&] { compile(two, {{"x", DType::f32, {4}}}); }).code(), ErrorCode::usage);
}

TEST(Weights, SayWhatThereIs) {
  const front::Weights w = front::Weights::from({{"a.weight", numbers({2})}, {"a.bias", numbers({3})}});
  const Error missing = error_of([&] { (w / "a").get("gamma"); });
  EXPECT_NE(missing.text().find("a.gamma"), std::string::npos);
  EXPECT_NE(missing.found().find("a.bias, a.weight"), std::string::npos) << missing.found();
  const Error wrong = error_of([&] { nn::Linear(4, 2, w / "a"); });
  EXPECT_EQ(wrong.expected(), "[2, 4]");
  EXPECT_EQ(wrong.found(), "[2]");
  EXPECT_EQ(wrong.module_path(), "a");
}

TEST(Weights, ThatAreTiedAreOneParameter) {
  const front::Weights w = front::Weights::from({{"embed.weight", numbers({3, 2})}});
  const nn::Embedding embed(3, 2, w / "embed");
  const nn::Linear head(2, 3, {.bias = false}, (w / "head").tied("weight", "embed.weight"));
  const Compiled run = compile([&](const Tensor& ids) { return head(embed(ids)); }, {{"ids", DType::i64, {"n"}}});
  ASSERT_EQ(run.program().parameters.size(), 1U);
  EXPECT_EQ(run.program().parameters[0].name, "embed.weight");
  EXPECT_EQ(run(store(DType::i64, {1}, std::vector<int64_t>{2})).shape(), (Sizes{1, 3}));
}

TEST(Eagerly, EveryOpHasAValueAtOnce) {
  const Tensor x(numbers({2, 3}));
  const Tensor y = functional::softmax(x * 2, -1);
  EXPECT_NEAR(load_double(y.array())[2], 0.8668, 1e-4);
  EXPECT_EQ(x.sum({0, 1}).item(), 15);
  std::ostringstream text;
  text << x[{0}];
  EXPECT_EQ(text.str(), "f32[3] [0, 1, 2]");
}

TEST(Compiling, TakesTheCpuBackendUnlessAnotherIsNamed) {
  const Weights w = Weights::from({{"fc.weight", numbers({2, 4}, 0.1, 0.1)}, {"fc.bias", numbers({2})}});
  const nn::Linear fc(4, 2, w / "fc");
  const Array x = numbers({3, 4}, -1, 0.2);
  const auto packed_by_two_calls = [&](const front::CompileOptions& options) {
    const Compiled run = compile([&](const Tensor& v) { return fc(v); }, {{"x", DType::f32, {"batch", 4}}}, options);
    const size_t before = derived_use().made;
    for (int call = 0; call < 2; ++call) run(x);
    return derived_use().made - before;  // the reference packs nothing
  };
  EXPECT_EQ(packed_by_two_calls({}), 1U);
  EXPECT_EQ(packed_by_two_calls({.backend = "cpu"}), 1U);
  EXPECT_EQ(packed_by_two_calls({.backend = "reference"}), 0U);
  EXPECT_EQ(packed_by_two_calls({.memory = front::Memory::small}), 0U) << "weights are read where they lie";
  EXPECT_EQ(packed_by_two_calls({.threads = 2}), 1U);
  EXPECT_THROW(packed_by_two_calls({.threads = -1}), Error);
  EXPECT_THROW(packed_by_two_calls({.backend = "abacus"}), Error);
}

// linear(x, weight) of a recorded model.
constexpr const char* kLinear = R"json({
  "format": "pycandle.manifest", "version": "1.0.0", "name": "linear",
  "files": {"trace": null, "weights": "w.safetensors"}, "symbols": [],
  "inputs": [{"name": "x", "value": 0, "dtype": "f32", "shape": [3, 4]}],
  "outputs": [{"name": "output", "value": 2, "dtype": "f32", "shape": [3, 2]}],
  "states": [],
  "parameters": [{"name": "weight", "kind": "parameter", "value": 1, "dtype": "f32", "shape": [2, 4], "file": "w.safetensors", "key": "weight"}],
  "nodes": [{"op": "aten.linear.default", "args": [["input", {"v": 0}], ["weight", {"v": 1}], ["bias", null]],
             "results": [{"value": 2, "dtype": "f32", "shape": [3, 2]}]}],
  "graphs": [], "module_calls": [], "taps": [], "files_table": []
}
)json";

TEST(Loading, TakesTheCpuBackendUnlessAnotherIsNamed) {
  const auto packed_by_two_calls = [](const front::LoadOptions& options) {
    const TemporaryFolder folder;  // what was packed of one file serves every model that loads it
    write_safetensors(folder.path() / "w.safetensors", {{"weight", numbers({2, 4}, 0.1, 0.1)}});
    write_text(folder.path() / "linear_manifest.json", kLinear);
    const front::Recorded recorded = front::Recorded::load(folder.path().string(), options);
    const size_t before = derived_use().made;
    for (int call = 0; call < 2; ++call) recorded.run({{"x", numbers({3, 4}, -1, 0.2)}});
    return derived_use().made - before;  // the reference packs nothing
  };
  EXPECT_EQ(packed_by_two_calls({}), 1U);
  EXPECT_EQ(packed_by_two_calls({.backend = "reference"}), 0U);
  EXPECT_EQ(packed_by_two_calls({.memory = front::Memory::small}), 0U) << "weights are read where they lie";
  EXPECT_EQ(packed_by_two_calls({.threads = 2}), 1U);
  EXPECT_THROW(packed_by_two_calls({.threads = -1}), Error);
  EXPECT_THROW(packed_by_two_calls({.backend = "abacus"}), Error);
}

TEST(Loading, TakesTheWeightsOfACheckpointAndSaysWhatBecameOfThem) {
  const TemporaryFolder folder;
  const std::string path = folder.path().string(), checkpoint = path + "/other.safetensors", rules = path + "/names.map";
  write_safetensors(folder.path() / "w.safetensors", {{"weight", numbers({2, 4}, 0.1, 0.1)}});
  write_safetensors(checkpoint, {{"module.weight", numbers({2, 4}, 0.3, 0.1)}, {"spare", numbers({2})}});
  write_text(rules, "* = module.*\n");
  write_text(folder.path() / "linear_manifest.json", kLinear);
  const front::Recorded own = front::Recorded::load(path);
  const front::Recorded other = front::Recorded::load(path, {.checkpoint = checkpoint, .rules = rules});
  const Array x = numbers({3, 4}, -1, 0.2);
  EXPECT_FALSE(own.run({{"x", x}}).at("output").same_bytes(other.run({{"x", x}}).at("output")));
  EXPECT_NE(own.ledger().find("\"unused\": 0"), std::string::npos) << own.ledger();
  EXPECT_NE(other.ledger().find("\"unused\": 1"), std::string::npos) << other.ledger();
  const Error missing = error_of([&] { front::Recorded::load(path, {.checkpoint = checkpoint}); });
  EXPECT_NE(missing.found().find("weight (nearest: module.weight"), std::string::npos) << missing.found();
}

TEST(Compiling, InputsThatAreMissingOrUnknownAreOneErrorThatListsTheNames) {
  const Compiled run = compile([](const Tensor& x, const Tensor& y) { return x + y; }, vectors());
  const Error nothing = error_of([&] { run.run(Compiled::Tensors{}); });
  EXPECT_EQ(nothing.code(), ErrorCode::bad_input);
  EXPECT_EQ(nothing.message(), "the inputs x, y are missing");
  EXPECT_EQ(nothing.found(), "no input");
  const Array x = numbers({3, 4});
  const Error other = error_of([&] { run.run(Compiled::Tensors{{"x", x}, {"z", x}}); });
  EXPECT_EQ(other.message(), "the input y is missing");
  EXPECT_EQ(other.expected(), "x: f32[batch, 4], y: f32[batch, 4]");
  EXPECT_EQ(other.found(), "x, z");
  const Error more = error_of([&] { run.run(Compiled::Tensors{{"x", x}, {"y", x}, {"z", x}}); });
  EXPECT_EQ(more.message(), "there are inputs that the program does not have");
}

TEST(Eagerly, AModelGivesTheSameAsCompiled) {
  const front::Weights w = front::Weights::from({{"fc.weight", numbers({2, 4}, 0.1, 0.1)}, {"fc.bias", numbers({2})}});
  const nn::Linear fc(4, 2, w / "fc");
  const Compiled run = compile([&](const Tensor& x) { return functional::gelu(fc(x)); }, {{"x", DType::f32, {"batch", 4}}},
                               {.backend = "reference"});
  const Array x = numbers({3, 4}, -1, 0.2), lazily = run(x);
  setenv("PYCANDLE_EAGER", "1", 1);
  const Array eagerly = run(x);
  unsetenv("PYCANDLE_EAGER");
  EXPECT_TRUE(lazily.same_bytes(eagerly));
}

TEST(Eagerly, SizesThatDataDecidesAreNumbers) {
  const Tensor x(store(DType::f32, {4}, std::vector<double>{0, 1, 0, 2}));
  const front::Dim count = front::data_dim();
  const Tensor places = functional::nonzero(x, count);
  EXPECT_EQ(places.shape().at(0).number(), 2);
  EXPECT_EQ(count.number(), 2);
  EXPECT_EQ(places.reshape({count}).array().size(), 2);
}

TEST(Captured, CountsAreAtLeastTheirMinlength) {
  const Compiled run = compile(
      [](const Tensor& x) {
        const front::Dim count = front::data_dim();
        const Tensor counts = functional::bincount(x, count, {.minlength = 3}).slice(0, 0, 3);
        EXPECT_EQ(counts.shape().at(0).text(), "3");
        return counts;
      },
      {{"x", DType::i64, {"n"}}}, {.backend = "reference"});
  const Array x = store(DType::i64, {4}, std::vector<int64_t>{1, 5, 1, 0});
  EXPECT_EQ(load_int(run(x)), (std::vector<int64_t>{1, 2, 0}));
}

using front::Tensors;

Tensors doubled(const Tensors& v) { return {v[0] * 2}; }
Tensors itself(const Tensors& v) { return v; }

// Counts its calls, and gives what it was given in the last one.
struct Counting : nn::Module<Counting> {
  State count, last;
  explicit Counting(const Weights& w) : Module(w), count(w.state("count")), last(w.state("last")) {}
  std::pair<Tensor, Tensor> forward(const Tensor& x) const {
    const Tensor before = last;  // stays what it is
    count = count + 1;
    last = x;
    return {x * count, before};
  }
};

Weights counted() {
  return Weights::from({{"count", store(DType::i64, Sizes{}, std::vector<double>{2})}, {"last", numbers({3}, 7)}});
}

void expect_states_live_on(const Compiled& run) {
  const Array x = numbers({3}, 1), y = numbers({3}, 5);
  EXPECT_EQ(load_double(run.run({{"x", x}}).at("output.0")), (std::vector<double>{3, 6, 9}));
  const auto second = run.run({{"x", y}});
  EXPECT_EQ(load_double(second.at("output.0")), (std::vector<double>{20, 24, 28}));
  EXPECT_EQ(load_double(second.at("output.1")), load_double(x));
  EXPECT_EQ(load_double(run.states().at("count")), (std::vector<double>{4}));
  EXPECT_EQ(load_double(run.states().at("last")), load_double(y));
  run.reset();
  EXPECT_EQ(load_double(run.states().at("count")), (std::vector<double>{2}));
  const auto again = run.run({{"x", x}});
  EXPECT_EQ(load_double(again.at("output.0")), (std::vector<double>{3, 6, 9}));
  EXPECT_EQ(load_double(again.at("output.1")), (std::vector<double>{7, 8, 9}));
}

TEST(States, LiveOnBetweenRunsUntilTheyAreReset) {
  const Counting model(counted());
  expect_states_live_on(compile(model, {{"x", DType::f32, {3}}}));
}

TEST(States, LiveOnEagerlyToo) {
  setenv("PYCANDLE_EAGER", "1", 1);
  const Counting model(counted());
  expect_states_live_on(compile(model, {{"x", DType::f32, {3}}}));
  unsetenv("PYCANDLE_EAGER");
}

TEST(States, AreSharedByTheModelsOfOneWeightsAndByAllShapes) {
  const Weights w = counted();
  const auto counts = [state = w.state("count")](const Tensor& x) {
    state = state + 1;
    return x * state;
  };
  const Compiled one = compile(counts), other = compile(counts);
  EXPECT_EQ(load_double(one(numbers({1}, 1))), (std::vector<double>{3}));
  EXPECT_EQ(load_double(one(numbers({2}, 1))), (std::vector<double>{4, 8}));
  EXPECT_EQ(load_double(other(numbers({1}, 1))), (std::vector<double>{5}));
}

TEST(States, KeepTheirType) {
  const Weights w = counted();
  const Error error = error_of(
      [&] { compile([&](const Tensor& x) { return w.state("count") = x.sum({}), x; }, {{"x", DType::f32, {3}}}); });
  EXPECT_NE(std::string(error.what()).find("state count changes its type"), std::string::npos) << error.what();
  EXPECT_NE(std::string(error.what()).find("i64[]"), std::string::npos);
}

TEST(ControlFlow, IsDecidedByValuesLazilyAndEagerly) {
  const auto model = [](const Tensor& x) {
    const Tensor y = functional::cond(x.sum({}) > 0, {x}, doubled, itself)[0];
    const auto is_small = [](const Tensors& v) { return Tensors{v[0].sum({}) < 100.0}; };
    return functional::while_loop({y}, is_small, doubled)[0];
  };
  const Compiled run = compile(model, {{"x", DType::f32, {"n"}}});
  for (const char* eager : {"0", "1"}) {
    setenv("PYCANDLE_EAGER", eager, 1);
    EXPECT_EQ(load_double(run(numbers({4})))[1], 32);
    EXPECT_EQ(load_double(run(numbers({4}, 200)))[0], 400);
  }
  unsetenv("PYCANDLE_EAGER");
}

TEST(ControlFlow, ScansASequence) {
  const auto add = [](const Tensors& v) { return Tensors{v[0] + v[1], v[0] + v[1]}; };
  const Compiled run = compile([&](const Tensor& x) { return functional::scan({x.select(0, 0) * 0, x}, 1, x.dim(0), add)[1]; },
                               {{"x", DType::f32, {"n"}}});
  EXPECT_EQ(load_double(run(numbers({5})))[4], 10);
}

TEST(ControlFlow, OfABodyThatUsesOutsideTensorsSaysSo) {
  const Tensor outside(numbers({4}));
  const auto uses_it = [&](const Tensors& v) { return Tensors{v[0] + outside}; };
  const Error error = error_of([&] {
    compile([&](const Tensor& x) { return functional::cond(x.sum({}) > 0, {x}, uses_it, itself)[0]; }, {{"x", DType::f32, {4}}});
  });
  EXPECT_NE(error.hint().find("operand"), std::string::npos) << error.text();
}

struct Pair {
  Tensor sum;
  std::vector<Tensor> parts;
  template <class F> void each(F&& f) const {
    f("sum", sum);
    f("parts", parts);
  }
};

TEST(Outputs, AreNamedAsARecordingNamesThem) {
  const Compiled run = compile([](const Tensor& x, const Tensor& y) { return Pair{x + y, {x, y * 2}}; }, vectors());
  EXPECT_EQ(run.outputs(), (std::vector<std::string>{"output.sum", "output.parts.0", "output.parts.1"}));
  const auto out = run.run({{"x", numbers({1, 4})}, {"y", numbers({1, 4})}});
  EXPECT_EQ(load_double(out.at("output.parts.1"))[3], 6);
}

TEST(Modules, AreCallsOfTheProgram) {
  const Model model(front::Weights::from({{"layers.0.weight", numbers({4, 2})}}));
  const Compiled run = compile(model, {{"x", DType::f32, {"batch", 4}}});
  ASSERT_EQ(run.program().calls.size(), 2U);
  EXPECT_EQ(run.program().calls[1].path, "layers.0");
  EXPECT_EQ(run.program().calls[1].parent, 0);
  EXPECT_EQ(run.program().graph.nodes.front().origin.call, 1);
}

}  // namespace
}  // namespace pycandle
