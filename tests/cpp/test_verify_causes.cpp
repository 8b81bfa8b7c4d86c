// From "wrong here" to the op and the cause: mistakes made on purpose in a program or in a backend.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "mistakes.h"
#include "mistakes_by_hand.h"
#include "ops/core/aten_call.h"
#include "ops/core/catalogue.h"
#include "passes/pipeline.h"
#include "passes/rewriter.h"
#include "small_recording.h"
#include "verify/diagnosing/causes.h"
#include "verify/diagnosing/diagnose.h"
#include "verify/diagnosing/divergence.h"
#include "verify/diagnosing/repro.h"
#include "verify/diagnosing/torch_source.h"
#include "verify/verify.h"

namespace pycandle {
namespace {

using Edit = std::function<std::optional<Values>(Builder&, const Node&, const Values&)>;

Attributes with(Attributes attributes, const std::string& name, Attribute value) {
  for (auto& [key, old] : attributes) {
    if (key == name) old = value;
  }
  return attributes;
}

// The same op with one attribute another.
Edit set(const std::string& op, const std::string& name, const Attribute& value) {
  return [=](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
    if (node.op->name != op) return std::nullopt;
    return b.create_all(op, operands, with(node.attributes, name, value));
  };
}

// Runs every program with the edit in it, unless the pass that makes it is disabled.
class EditingBackend final : public Backend {
 public:
  explicit EditingBackend(Edit edit, std::string pass = {}) : edit_(std::move(edit)), pass_(std::move(pass)) {}
  std::string name() const override { return "editing"; }
  bool claims(const Call& call) const override { return reference_backend().claims(call); }
  std::unique_ptr<Executable> compile(const Program& p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                                      const PipelineOptions& options, std::vector<PassTiming>* timings) const override {
    const bool edits = options.disabled.count(pass_) == 0;
    return reference_backend().compile(edits ? rewrite_outside_regions(p, table, edit_) : p, table, std::move(parameters),
                                       options, timings);
  }

 private:
  Edit edit_;
  std::string pass_;
};

LayerResult wrong_layer(const VerifyResult& r) {
  for (const LayerResult& l : r.layers) {
    if (l.verdict == Verdict::wrong_here) return l;
  }
  throw std::runtime_error("nothing is wrong");
}

Diagnosis of_program(const Edit& edit, const SmallRecording& recording = {}) {
  VerifyOptions options;
  options.change_program = [&](Program& p) { p = rewrite_outside_regions(std::move(p), catalogue(), edit); };
  const LayerResult layer = wrong_layer(verify_recording(recording.manifest(), options));
  EXPECT_EQ(layer.judged, Judged::program);
  return layer.diagnosis.value();
}

Diagnosis of_backend(const Edit& edit) {
  const SmallRecording recording;
  const EditingBackend backend(edit);
  VerifyOptions options;
  options.backend_object = &backend;
  const LayerResult layer = wrong_layer(verify_recording(recording.manifest(), options));
  EXPECT_EQ(layer.judged, Judged::backend);
  return layer.diagnosis.value();
}

TEST(Causes, AProgramWithTheOtherGeluIsToldWhatTheModelUses) {
  const Diagnosis d = of_program(set("gelu", "approximate", std::string("tanh")));
  EXPECT_EQ(d.op, "gelu");
  EXPECT_EQ(d.place, "small.py:12");
  EXPECT_EQ(d.cause, "looks like the tanh GELU where the model uses the erf GELU");
  EXPECT_EQ(d.cause_kind, "gelu form");
}

TEST(Causes, ABackendWithTheOtherGeluIsToldWhatItComputes) {
  const Diagnosis d = of_backend(set("gelu", "approximate", std::string("tanh")));
  EXPECT_EQ(d.op, "gelu");
  EXPECT_EQ(d.cause, "looks like the tanh GELU where the model uses the erf GELU");
}

TEST(Causes, ANumberIsFound) {
  EXPECT_EQ(of_program(set("layer_norm", "eps", 0.02)).cause,
            "looks like an epsilon of 0.02 where the model uses an epsilon of 0.001");
  EXPECT_EQ(of_backend(set("layer_norm", "eps", 0.02)).cause,
            "looks like an epsilon of 0.02 where the model uses an epsilon of 0.001");
  EXPECT_EQ(of_program(set("scaled_dot_product_attention", "scale", 0.45)).cause,
            "looks like a scale of 0.45 where the model uses a scale of 0.7");
}

TEST(Causes, SwappedOperandsAreNamed) {
  const Edit swapped = [](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
    if (node.op->name != "sub") return std::nullopt;
    return b.create_all("sub", {operands[1], operands[0]});
  };
  EXPECT_EQ(of_program(swapped).cause_kind, "operand order");
  EXPECT_EQ(of_backend(swapped).cause_kind, "operand order");
}

TEST(Causes, ABiasThatTheProgramLacksIsFoundAmongTheParameters) {
  const Diagnosis d = of_program([](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
    if (node.op->name != "layer_norm") return std::nullopt;
    return b.create_all("layer_norm", {operands[0], operands[1], kNoValue}, node.attributes);
  });
  EXPECT_EQ(d.cause, "looks like no bias where the model uses norm.bias");
}

TEST(Causes, ARoundingThatTheModelDoesNotHaveIsWrong) {
  const Diagnosis d = of_program([](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
    if (node.op->name != "gelu") return std::nullopt;
    return b.create_all("gelu", {b.cast(b.cast(operands[0], DType::bf16), DType::f32)}, node.attributes);
  });
  EXPECT_EQ(d.cause, "looks like a rounding to a smaller float where the model has none");
}

TEST(Causes, WhatNoMistakeGivesHasNoCause) {
  SmallRecording recording;
  std::vector<double> values = load_double(recording.goldens.at("act@0/output"));
  values[9] += 0.01;
  recording.goldens.at("act@0/output") = store(DType::f32, {2, 4, 8}, values);
  recording.write_trace();
  const LayerResult layer = wrong_layer(verify_recording(recording.manifest()));
  ASSERT_TRUE(layer.diagnosis);
  EXPECT_EQ(layer.diagnosis->cause_kind, "");
  EXPECT_EQ(layer.diagnosis->cause.rfind("none of ", 0), 0u) << layer.diagnosis->cause;
}

TEST(Causes, SeveralThatFitAreAllSaidAndNoneIsNamed) {
  Causes causes;
  causes.found = {{"a", "looks like x", 0}, {"b", "looks like y", 0}};
  EXPECT_EQ(causes.only(), nullptr);
  EXPECT_NE(causes.text().find("several"), std::string::npos);
  causes.found[1].kind = "a";
  EXPECT_NE(causes.only(), nullptr);
}

// ---- each mistake of the list, in a program of its own

class Mistakes : public testing::TestWithParam<MistakeCase> {
 protected:
  static constexpr const char* kFile = "weights.safetensors";

  Program program(const Computation& computation) const {
    Program p;
    p.name = "case";
    Values values;
    for (size_t i = 0; i < operands().size(); ++i) {
      if (operands()[i].is_parameter) continue;
      p.inputs.push_back({fmt::format("x{}", i), p.graph.add_input(operands()[i].type), {}, true});
    }
    size_t input = 0;
    for (size_t i = 0; i < operands().size(); ++i) {
      if (!operands()[i].is_parameter) {
        values.push_back(p.inputs[input++].value);
        continue;
      }
      Parameter& q = p.parameters.emplace_back();
      q.name = q.key = fmt::format("p{}", i);
      q.file = kFile;
      q.type = operands()[i].type;
      q.value = p.graph.add_input(q.type);
      values.push_back(q.value);
    }
    Builder b(p.graph, catalogue());
    p.outputs.push_back({"output", computation(b, values)});
    p.bind_outputs();
    return p;
  }

  std::vector<Array> inputs(bool of_parameters) const {
    std::vector<Array> arrays;
    for (size_t i = 0; i < operands().size(); ++i) {
      const Type& type = operands()[i].type;
      if (operands()[i].is_parameter != of_parameters) continue;
      Sizes shape;
      for (const Dim d : type.shape) shape.push_back(d.number());
      const Floats numbers = some_floats(static_cast<int>(element_count(shape)), 11 * static_cast<int>(i) + 3);
      std::vector<double> values(numbers.begin(), numbers.end());
      for (double& v : values) {
        if (type.dtype == DType::boolean) v = v > -0.5 ? 1 : 0;
        if (of_parameters) v = std::abs(v) + 0.1;  // one of them may be a variance
      }
      arrays.push_back(store(type.dtype, shape, values));
    }
    return arrays;
  }

  // What is said when the program is the first, and the second gives the value that PyTorch has, or the backend.
  void expect_named(const Computation& is, const Computation& gives, bool is_backend) const {
    const Program p = program(is), other = program(gives);
    const std::vector<Array> parameters = inputs(true), given = inputs(false);
    std::map<std::string, Array> stored;
    for (size_t i = 0; i < parameters.size(); ++i) stored.emplace(p.parameters[i].key, parameters[i]);
    const TemporaryFolder folder;
    write_safetensors(folder.path() / kFile, stored);
    const Trials trials(catalogue(), file_parameters(folder.path()), {});
    PerValue<bool> known(p.graph.values.size());
    for (const Input& i : p.inputs) known[i.value] = true;
    const Slice slice = Slicer(p, known).slice(p.outputs[0].value);
    std::vector<Array> slice_inputs;
    std::vector<std::pair<std::string, Array>> all_inputs;
    for (size_t i = 0; i < given.size(); ++i) all_inputs.emplace_back(p.inputs[i].name, given[i]);
    for (ValueId v : slice.inputs) {
      const auto input = std::find_if(p.inputs.begin(), p.inputs.end(), [&](const Input& i) { return i.value == v; });
      slice_inputs.push_back(given[input - p.inputs.begin()]);
    }
    const Array value = trials.rounded(other, given);
    Evidence evidence;
    evidence.golden = value;
    Judgement judgement;
    if (slice.program.graph.type(slice.program.outputs[0].value) == other.graph.type(other.outputs[0].value)) {
      judgement = trials.judge(slice.program, slice_inputs, evidence);
      EXPECT_FALSE(judgement.passed) << "the mistake changes nothing";
    }
    Suspect suspect{p, slice, slice_inputs, value, is_backend, judgement.floor_rms, judgement.floor_max};
    if (!is_backend) suspect.beside = [&](const Type&) { return all_inputs; };
    const Causes causes = find_causes(suspect, trials);
    const Cause* cause = causes.only();
    EXPECT_EQ(cause ? cause->kind : "", GetParam().kind) << causes.text();
    if (!cause) return;
    const std::string op = !cause->op.empty() ? cause->op : slice.program.graph.nodes[cause->node].op->name;
    const bool has_op = &is == &GetParam().as_it_is;  // the other way another op may stand there
    EXPECT_TRUE(op == GetParam().op || !has_op) << op << ": " << causes.text();
  }

  static const std::vector<Given>& operands() { return GetParam().operands; }
};

TEST_P(Mistakes, AreNamedInAProgramAndInABackend) {
  for (const bool is_backend : {false, true}) {
    SCOPED_TRACE(is_backend ? "the backend's value" : "PyTorch's value");
    expect_named(GetParam().as_it_is, GetParam().mistaken, is_backend);
    SCOPED_TRACE("the other way");
    // A sum that is not there is looked for among the values beside it, which a program has and an op alone has not.
    const bool is_absent = GetParam().kind == "missing residual" && !is_backend;
    if (GetParam().both_ways || is_absent) expect_named(GetParam().mistaken, GetParam().as_it_is, is_backend);
  }
}

std::string test_name(const testing::TestParamInfo<MistakeCase>& mistake) {
  std::string name = mistake.param.name;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}
INSTANTIATE_TEST_SUITE_P(All, Mistakes, testing::ValuesIn(mistakes()), test_name);
INSTANTIATE_TEST_SUITE_P(ByHand, Mistakes, testing::ValuesIn(mistakes_by_hand()), test_name);

TEST(Causes, OfSeveralThatFitTheOneIsNamedThatGivesWhatWasRecorded) {
  const auto program = [](const char* chosen) {
    return parse_program(fmt::format(R"(ptir.v1 program "case"

input %0 "x": f32[6]
input %1 "y": f32[6]

%2 = lt(%0, %1): bool[6]
%3 = select(%2, {}): f32[6]

output "output" %3
)",
                                     chosen),
                         catalogue(), "case");
  };
  const Program mistaken = program("%1, %0"), recorded = program("%0, %1");
  const Trials trials(catalogue(), memory_parameters({}), {});
  const std::vector<Array> inputs{float_array({6}, some_floats(6, 3)), float_array({6}, some_floats(6, 40))};
  const Array golden = trials.rounded(recorded, inputs);
  const Slice slice = Slicer(mistaken, PerValue<bool>(mistaken.graph.values.size())).slice(3);
  Suspect suspect{mistaken, slice, inputs, golden};
  EXPECT_EQ(find_causes(suspect, trials).found.size(), 1u) << "greater for less is the same";
  suspect.recorded_program = [&] { return recorded; };
  const Causes causes = find_causes(suspect, trials);
  ASSERT_NE(causes.only(), nullptr) << causes.text();
  EXPECT_EQ(causes.only()->kind, "mask sign");
}

// ---- source code beside the recorded program

Program of_two_inputs(const std::string& nodes) {
  return parse_program(
      "ptir.v1 program \"case\"\n\ninput %0 \"x\": f32[6]\ninput %1 \"y\": f32[6]\n\n" + nodes + "\noutput \"output\" %9\n",
      catalogue(), "case");
}

struct Difference {
  const char *written, *recorded;  // nodes; %9 is the output
  const char *cause, *op;
};

TEST(Causes, OfSourceCodeAreFoundInWhatWasRecorded) {
  const char* const gated = "%2 = silu({}): f32[6]\n%9 = mul(%2, {}): f32[6]\n";
  const std::string exchanged = fmt::format(fmt::runtime(gated), "%1", "%0"),
                    as_recorded = fmt::format(fmt::runtime(gated), "%0", "%1");
  const Difference differences[] = {
      {exchanged.c_str(), as_recorded.c_str(), "looks like y and x are exchanged", "silu"},
      {"%9 = add(%0, %1): f32[6]\n",
       "%2 = constant() {value = 0.5, dtype = f32}: f32[]\n%3 = broadcast(%2) {shape = [6], axes = []}: f32[6]\n"
       "%4 = mul(%0, %3): f32[6]\n%9 = add(%4, %1): f32[6]\n",
       "looks like no factor where the model uses times 0.5", "mul"},
      // behind the relu, or the product, would do as well
      {"%2 = relu(%0): f32[6]\n%9 = mul(%2, %1): f32[6]\n",
       "%2 = constant() {value = 0.5, dtype = f32}: f32[]\n%3 = broadcast(%2) {shape = [6], axes = []}: f32[6]\n"
       "%4 = mul(%0, %3): f32[6]\n%5 = relu(%4): f32[6]\n%9 = mul(%5, %1): f32[6]\n",
       "looks like no factor where the model uses times 0.5", "mul"},
      // the difference turned around would do as well
      {"%2 = sub(%0, %1): f32[6]\n%3 = constant() {value = 0.5, dtype = f32}: f32[]\n"
       "%4 = broadcast(%3) {shape = [6], axes = []}: f32[6]\n%9 = mul(%2, %4): f32[6]\n",
       "%2 = sub(%0, %1): f32[6]\n%3 = constant() {value = -0.5, dtype = f32}: f32[]\n"
       "%4 = broadcast(%3) {shape = [6], axes = []}: f32[6]\n%9 = mul(%2, %4): f32[6]\n",
       "looks like a constant of 0.5 where the model uses a constant of -0.5", "mul"},
  };
  const Trials trials(catalogue(), memory_parameters({}), {});
  const std::vector<Array> inputs{float_array({6}, some_floats(6, 3)), float_array({6}, some_floats(6, 40))};
  for (const Difference& d : differences) {
    SCOPED_TRACE(d.written);
    const Program written = of_two_inputs(d.written), recorded = of_two_inputs(d.recorded);
    const Array golden = trials.rounded(recorded, inputs);
    PerValue<bool> known(written.graph.values.size());
    known[0] = known[1] = true;
    const Slice slice = Slicer(written, known).slice(written.outputs[0].value);
    std::vector<Array> given;
    for (ValueId v : slice.inputs) given.push_back(inputs[v]);
    Suspect suspect{written, slice, given, golden};
    suspect.recorded_program = [&]() -> std::optional<Program> {
      Program ordered = recorded;
      if (slice.inputs[0] == written.inputs[1].value) std::swap(ordered.inputs[0], ordered.inputs[1]);
      return ordered;
    };
    const Causes causes = find_causes(suspect, trials);
    ASSERT_NE(causes.only(), nullptr) << causes.text();
    EXPECT_EQ(causes.only()->sentence, d.cause);
    EXPECT_EQ(causes.found.size(), 1u);
    const Cause& cause = *causes.only();
    EXPECT_EQ(cause.op.empty() ? slice.program.graph.nodes[cause.node].op->name : cause.op, d.op);
  }
}

// What is said of source code that is the recorded program but for the edit.
LayerResult of_source(const SmallRecording& recording, const Edit& edit) {
  Program written = run_program_pipeline(import_manifest(recording.manifest(), catalogue()).program, catalogue());
  VerifyOptions options;
  options.program = recording.folder.path() / "written.ptir";
  write_text(options.program, print(rewrite_outside_regions(std::move(written), catalogue(), edit)));
  return wrong_layer(verify_recording(recording.manifest(), options));
}

TEST(Causes, OfSourceCodeThatDoesNotRunAreWhatItSaysDifferently) {
  const LayerResult layer = of_source({}, [](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
    if (node.op->name != "sub") return std::nullopt;
    const ValueId too_far = b.broadcast_to(b.full(int64_t{9}, DType::i64), b.shape(operands[1]));
    return Values{b.sub(operands[0], b.create("gather", {operands[1], too_far}, {{"axis", int64_t{1}}}))};
  });
  EXPECT_EQ(layer.path, "rest@0");
  EXPECT_EQ(layer.why.rfind("does not run on PyTorch's values: ", 0), 0u) << layer.why;
  EXPECT_EQ(layer.diagnosis->op, "gather");
  EXPECT_NE(layer.diagnosis->cause.find("it has gather(x, 9) where the recorded program has sub(attn@0/output, x)"),
            std::string::npos)
      << layer.diagnosis->cause;
}

TEST(Causes, OfSourceCodeAreSearchedWhereTheRecordedProgramReadsAValueTwice) {
  SmallRecording recording;
  std::string manifest = SmallRecording::kManifest;
  const std::string difference = R"("aten.sub.Tensor", "args": [["self", {"v": 5}], ["other", {"v": 0}])";
  manifest.replace(manifest.find(difference), difference.size(),
                   R"("aten.add.Tensor", "args": [["self", {"v": 5}], ["other", {"v": 5}])");
  write_text(recording.manifest(), manifest);
  std::vector<double> twice = load_double(recording.goldens.at("attn@0/output"));
  for (double& v : twice) v *= 2;
  for (const char* key : {"rest@0/output", "output:output"}) recording.goldens.at(key) = store(DType::f32, {2, 4, 8}, twice);
  recording.goldens.erase("attn@0/output");  // made inside of the layer, then
  recording.write_trace();
  const LayerResult layer = of_source(recording,
                                      [](Builder& b, const Node& node, const Values& operands) -> std::optional<Values> {
                                        if (node.op->name != "add") return std::nullopt;
                                        return Values{b.create("fmod", operands)};
                                      });
  EXPECT_EQ(layer.diagnosis->op, "fmod");
  EXPECT_NE(layer.diagnosis->cause.find("it has fmod(scaled_dot_product_attention, scaled_dot_product_attention) where the "
                                        "recorded program has add(scaled_dot_product_attention, scaled_dot_product_attention)"),
            std::string::npos)
      << layer.diagnosis->cause;
}

TEST(Causes, TheRecordedProgramHasItsInputsInOurOrderAlsoWhereTheyAreEqual) {
  const Program two = of_two_inputs("%9 = sub(%0, %1): f32[6]\n");
  const Array x = float_array({6}, some_floats(6, 3)), y = float_array({6}, some_floats(6, 40));
  const auto order = [&](const std::vector<Array>& ours, const std::vector<Array>& recorded) {
    std::string names;
    const std::optional<Program> ordered = ordered_as(ours, {two, recorded, {"x", "y"}});
    for (size_t i = 0; ordered && i < ordered->inputs.size(); ++i) names += ordered->inputs[i].name;
    return names;
  };
  EXPECT_EQ(order({x, y}, {x, y}), "xy");
  EXPECT_EQ(order({y, x}, {x, y}), "yx");
  EXPECT_EQ(order({x, x}, {x, x}), "xy");
  EXPECT_EQ(order({x, x}, {x, y}), "");
}

TEST(Divergence, NamesTheFirstOpsThatDifferOnValuesThatBothHave) {
  const auto text = [](const std::string& ours, const std::string& recorded) {
    const std::vector<GivenValue> given{{hash128("x"), "x"}, {hash128("y"), "y"}};
    const Divergence p = divergence_of(of_two_inputs(ours), given, of_two_inputs(recorded), given);
    return fmt::format("{} | {}", fmt::join(p.ours, " and "), fmt::join(p.recorded, " and "));
  };
  const std::string sum = "%2 = exp(%0): f32[6]\n%9 = add(%2, %1): f32[6]\n";
  EXPECT_EQ(text(sum, sum), " | ");
  EXPECT_EQ(text(sum, "%2 = reshape(%0) {shape = [6]}: f32[6]\n%3 = exp(%2): f32[6]\n%9 = add(%3, %1): f32[6]\n"), " | ")
      << "a reshape to the same shape is none";
  EXPECT_EQ(text(sum, "%2 = exp(%1): f32[6]\n%9 = add(%2, %0): f32[6]\n"), "exp(x) | exp(y)");
  EXPECT_EQ(text(sum, "%9 = exp(%0): f32[6]\n"), "add(exp, y) | ");
  EXPECT_EQ(text("%2 = reshape(%0) {shape = [2, 3]}: f32[2, 3]\n%9 = exp(%2): f32[2, 3]\n",
                 "%2 = reshape(%0) {shape = [2, 3]}: f32[2, 3]\n%9 = tanh(%2): f32[2, 3]\n"),
            "exp(x) | tanh(x)");
  EXPECT_EQ(text("%9 = softmax(%0) {dim = 0}: f32[6]\n", "%9 = softmax(%0) {dim = -1}: f32[6]\n"),
            "softmax(x, dim=0) | softmax(x, dim=-1)");
}

// ---- isolation

TEST(Isolation, TheWrongOpIsFoundAmongThoseOfItsSlice) {
  SmallRecording recording;
  for (const char* tap : {"norm@0/output", "act@0/output", "attn@0/output"}) recording.goldens.erase(tap);
  recording.write_trace();
  const EditingBackend backend(set("gelu", "approximate", std::string("tanh")));
  VerifyOptions options;
  options.backend_object = &backend;
  const LayerResult layer = wrong_layer(verify_recording(recording.manifest(), options));
  EXPECT_EQ(layer.path, "rest@0") << "the only golden there is";
  EXPECT_EQ(layer.diagnosis->op, "gelu");
  EXPECT_EQ(layer.diagnosis->place, "small.py:12");
  EXPECT_EQ(layer.diagnosis->cause_kind, "gelu form");
}

TEST(Isolation, ThePassWithoutWhichABackendIsRightIsNamed) {
  const SmallRecording recording;
  const Edit edit = set("gelu", "approximate", std::string("tanh"));
  const EditingBackend backend(edit, "remove-unused"), always(edit);
  VerifyOptions options;
  options.backend_object = &backend;
  EXPECT_EQ(wrong_layer(verify_recording(recording.manifest(), options)).diagnosis->pass, "remove-unused");
  options.pipeline.disabled = {"remove-unused"};
  EXPECT_TRUE(verify_recording(recording.manifest(), options).passed()) << "a disabled pass is disabled in the backend too";
  options.backend_object = &always;
  EXPECT_EQ(wrong_layer(verify_recording(recording.manifest(), options)).diagnosis->pass, "");
}

// ---- folders of wrong layers

TEST(Reproductions, CallPyTorchOrSayWhichOpTheyCannotCall) {
  const char* const kSplit = "%2, %3 = split(%0) {sizes = [2, 4], axis = 0}: f32[2], f32[4]\n%9 = exp(%3): f32[4]\n";
  EXPECT_EQ(torch_source(of_two_inputs(kSplit), {}).text,
            "    v2, v3 = torch.split(inputs[\"x\"], [2, 4], 0)\n    v4 = torch.exp(v3)\n    return v4\n");
  EXPECT_EQ(torch_source(of_two_inputs("%9 = split(%0) {sizes = [6], axis = 0}: f32[6]\n"), {}).text,
            "    v2, = torch.split(inputs[\"x\"], [6], 0)\n    return v2\n");
  EXPECT_EQ(
      torch_source(of_two_inputs("%2 = reshape(%0) {shape = [1, 6]}: f32[1, 6]\n"
                                 "%9 = avg_pool1d(%2) {kernel_size = [2], stride = [2], divisor_override = 3}: f32[1, 3]\n"),
                   {})
          .unspelled,
      "avg_pool1d");
  const TorchSource none = torch_source(of_two_inputs("%9 = i0(%0): f32[6]\n"), {});
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(none.unspelled, "i0");
}

TEST(Reproductions, AreReplayedOnAnyBackend) {
  const SmallRecording recording;
  const EditingBackend backend(set("gelu", "approximate", std::string("tanh")));
  std::filesystem::path folder;
  VerifyOptions options;
  options.backend_object = &backend;
  options.on_wrong = [&](const LayerResult& layer, const Reproduction& r) {
    folder = write_reproduction(recording.folder.path() / "repro", layer, r, "editing");
  };
  verify_recording(recording.manifest(), options);
  EXPECT_EQ(folder.filename(), "act@0-output");
  const Replay fixed = replay(folder, reference_backend(), catalogue()), broken = replay(folder, backend, catalogue());
  EXPECT_TRUE(fixed.is_fixed());
  EXPECT_FALSE(broken.is_fixed());
  EXPECT_EQ(fixed.op, "gelu");
  EXPECT_GT(fixed.then.max_abs, 1e-5);
  EXPECT_LT(fixed.now.max_abs, 1e-6);
}

}  // namespace
}  // namespace pycandle
