#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "error_of.h"
#include "runtime/model.h"
#include "small_recording.h"

namespace pycandle {
namespace {

TEST(Model, LoadsARecordingAndComputesItsOutputs) {
  const SmallRecording recording;
  const Model model = open_model(recording.folder.path());
  const Model::Tensors out = model.forward({{"x", recording.goldens.at("input:x")}});
  ASSERT_EQ(out.size(), 1u);
  const std::vector<double> got = load_double(out.at("output")), expected = load_double(recording.goldens.at("output:output"));
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
  EXPECT_EQ(model.backend(), "reference");
  EXPECT_FALSE(model.timings().empty());
}

TEST(Model, RunsAtAnotherBatchThanTheRecordedOne) {
  const SmallRecording recording;
  const Model model = open_model(recording.manifest());
  for (int64_t batch : {1, 3}) {
    const Model::Tensors out = model.forward(random_inputs(model.program(), 0, {{"s0", batch}}));
    EXPECT_EQ(out.at("output").shape(), (Sizes{batch, kLength, kWidth}));
  }
}

TEST(Model, TraceShowsEveryTapById) {
  const SmallRecording recording;
  const Model model = open_model(recording.manifest());
  std::map<std::string, Array> taps;
  const Model::Tensors out = model.trace({{"x", recording.goldens.at("input:x")}},
                                         [&](const Tap& tap, const Array& a) { taps[tap.id.text()] = a; });
  EXPECT_EQ(taps.size(), 5u);
  EXPECT_TRUE(taps.at("@0/output").same_bytes(out.at("output")));
}

TEST(Model, InputsThatAreMissingOrUnknownAreOneErrorThatListsTheNames) {
  const SmallRecording recording;
  const Model model = open_model(recording.manifest());
  const Error e = error_of([&] { model.forward({{"y", Array(DType::f32, {1})}}); });
  EXPECT_EQ(e.code(), ErrorCode::bad_input);
  EXPECT_EQ(e.message(), "the input x is missing");
  EXPECT_EQ(e.expected(), "x: f32[s0, 4, 8]");
  EXPECT_EQ(e.found(), "y");
  EXPECT_THROW(model.forward({{"x", recording.goldens.at("input:x")}, {"y", Array(DType::f32, {1})}}), Error);
}

TEST(Model, AnUnknownBackendIsAUsageErrorThatListsThoseOfThisBuild) {
  const SmallRecording recording;
  LoadOptions options;
  options.backend = "gpu9000";
  const Error e = error_of([&] { open_model(recording.manifest(), options); });
  EXPECT_EQ(e.code(), ErrorCode::usage);
  EXPECT_NE(e.expected().find("reference"), std::string::npos);
}

TEST(Model, FilesReplacedAfterLoadingChangeNothingOnAnyBackend) {
  const SmallRecording recording;
  const Model::Tensors inputs{{"x", recording.goldens.at("input:x")}};
  const Model model = open_model(recording.manifest());
  const Array first = open_model(recording.manifest()).forward(inputs).at("output");
  write_safetensors(recording.folder.path() / "small_weights.safetensors",
                    {{"norm.weight", float_array({kWidth}, some_floats(kWidth, 5))},
                     {"norm.bias", float_array({kWidth}, some_floats(kWidth, 9))}});
  std::filesystem::remove(recording.manifest());
  EXPECT_TRUE(model.forward(inputs).at("output").same_bytes(first));
  LoadOptions options;
  options.backend = "cpu";
  const Model other = model.on(options);
  EXPECT_EQ(other.backend(), "cpu");
  const std::vector<double> got = load_double(other.forward(inputs).at("output")), expected = load_double(first);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], expected[i], 1e-5);
  write_text(recording.manifest(), SmallRecording::kManifest);
  EXPECT_FALSE(open_model(recording.manifest()).forward(inputs).at("output").same_bytes(first)) << "new files, new values";
}

TEST(Parameters, ARelativeFolderIsTheSameOneAfterTheProcessWentElsewhere) {
  const SmallRecording recording;
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(recording.folder.path());
  const auto source = file_parameters(".");
  std::filesystem::current_path(before);
  Parameter p;
  p.name = p.key = "norm.bias";
  p.type = {DType::f32, {kWidth}};
  p.file = "small_weights.safetensors";
  EXPECT_EQ(source->get(p).shape(), (Sizes{kWidth}));
}

TEST(Parameters, AWeightOfAnotherTypeIsAnErrorThatNamesBothTypes) {
  const SmallRecording recording;
  write_safetensors(recording.folder.path() / "small_weights.safetensors",
                    {{"norm.weight", Array(DType::f32, {9})}, {"norm.bias", Array(DType::f32, {8})}});
  const Model model = open_model(recording.manifest());
  const Error e = error_of([&] { model.forward({{"x", recording.goldens.at("input:x")}}); });
  EXPECT_NE(e.message().find("norm.weight"), std::string::npos) << e.message();
  EXPECT_EQ(e.expected(), "f32[8]");
  EXPECT_EQ(e.found(), "f32[9] in small_weights.safetensors");
}

TEST(Parameters, AMissingTensorOrFileIsAnErrorThatNamesIt) {
  const SmallRecording recording;
  write_safetensors(recording.folder.path() / "small_weights.safetensors", {{"norm.bias", Array(DType::f32, {8})}});
  Error e = error_of([&] { open_model(recording.manifest()).forward({{"x", recording.goldens.at("input:x")}}); });
  EXPECT_NE(e.message().find("norm.weight"), std::string::npos) << e.message();
  std::filesystem::remove(recording.folder.path() / "small_weights.safetensors");
  e = error_of([&] { open_model(recording.manifest()).forward({{"x", recording.goldens.at("input:x")}}); });
  EXPECT_EQ(e.code(), ErrorCode::bad_input);
}

TEST(Parameters, AFileOutsideTheFolderIsReadOnlyWhenTheManifestRefersToWeights) {
  const TemporaryFolder folder, elsewhere;
  write_safetensors(elsewhere.path() / "w.safetensors", {{"w", float_array({2}, {1, 2})}});
  Parameter p;
  p.name = p.key = "w";
  p.type = {DType::f32, {2}};
  p.file = (elsewhere.path() / "w.safetensors").string();
  const Error e = error_of([&] { file_parameters(folder.path())->get(p); });
  EXPECT_NE(e.message().find("outside the manifest's folder"), std::string::npos) << e.message();
  EXPECT_EQ(load_double(file_parameters(folder.path(), ParameterFiles::anywhere)->get(p)), (std::vector<double>{1, 2}));
}

TEST(Parameters, IdsAreStableHashesOfTheName) {
  EXPECT_EQ(parameter_id("transformer.wte.weight"), parameter_id("transformer.wte.weight"));
  EXPECT_FALSE(parameter_id("a") == parameter_id("b"));
  EXPECT_EQ(parameter_id("transformer.wte.weight").text().size(), 32u);
}

// ---- random inputs

const Program& small_program() {
  static const SmallRecording recording;
  static const Model model = open_model(recording.manifest());
  return model.program();
}

TEST(RandomInputs, AreTheSameBitsEverywhereForTheSameSeed) {
  const Array first = random_inputs(small_program(), 1).at("x"), again = random_inputs(small_program(), 1).at("x"),
              other = random_inputs(small_program(), 2).at("x");
  EXPECT_TRUE(first.same_bytes(again));
  EXPECT_FALSE(first.same_bytes(other));
  EXPECT_EQ(first.shape(), (Sizes{2, 4, 8})) << "the recorded sizes, unless others are given";
}

TEST(RandomInputs, FloatsAreStandardNormal) {
  const std::vector<double> values = load_double(random_inputs(small_program(), 5, {{"s0", 1000}}).at("x"));
  double sum = 0, squares = 0;
  for (double v : values) {
    sum += v;
    squares += v * v;
  }
  const double n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 0.03);
  EXPECT_NEAR(squares / n, 1, 0.05);
}

TEST(RandomInputs, IntegersStayInTheRecordedRangeAndReachItsEnds) {
  Program p;
  p.inputs.push_back({"ids", p.graph.add_input({DType::i64, {Dim(500)}}), std::pair<int64_t, int64_t>{3, 7}, true});
  const std::vector<int64_t> values = load_int(random_inputs(p, 0).at("ids"));
  EXPECT_EQ(*std::min_element(values.begin(), values.end()), 3);
  EXPECT_EQ(*std::max_element(values.begin(), values.end()), 7);
}

TEST(RandomInputs, FloatsThatStandForIntegersAreWholeNumbersOfTheRecordedRange) {
  Program p;
  p.inputs.push_back({"adjacency", p.graph.add_input({DType::f32, {Dim(500)}}), std::pair<int64_t, int64_t>{0, 1}, true});
  const std::vector<double> values = load_double(random_inputs(p, 0).at("adjacency"));
  const auto zeros = std::count(values.begin(), values.end(), 0.0), ones = std::count(values.begin(), values.end(), 1.0);
  EXPECT_EQ(zeros + ones, 500);
  EXPECT_GT(std::min(zeros, ones), 200);
}

TEST(RandomInputs, AnUnknownSymbolIsAUsageErrorThatListsTheKnown) {
  const Error e = error_of([&] { random_inputs(small_program(), 0, {{"s7", 2}}); });
  EXPECT_EQ(e.code(), ErrorCode::usage);
  EXPECT_EQ(e.expected(), "one of s0");
}

}  // namespace
}  // namespace pycandle
