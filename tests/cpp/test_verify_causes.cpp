// From "wrong here" to the op and the cause: mistakes made on purpose in a program or in a backend.
#include <gtest/gtest.h>

#include "base/error.h"
#include "ops/aten_call.h"
#include "ops/catalogue.h"
#include "passes/rewriter.h"
#include "small_recording.h"
#include "verify/causes.h"
#include "verify/repro.h"

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
  EXPECT_EQ(layer.judged, "program");
  return layer.diagnosis.value();
}

Diagnosis of_backend(const Edit& edit) {
  const SmallRecording recording;
  const EditingBackend backend(edit);
  VerifyOptions options;
  options.backend_object = &backend;
  const LayerResult layer = wrong_layer(verify_recording(recording.manifest(), options));
  EXPECT_EQ(layer.judged, "backend");
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
