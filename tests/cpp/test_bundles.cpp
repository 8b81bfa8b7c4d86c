#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "base/archive.h"
#include "base/weight_bytes.h"
#include "error_of.h"
#include "ops/core/catalogue.h"
#include "pycandle/loaded_model.h"
#include "runtime/bundle.h"
#include "small_recording.h"

namespace pycandle {
namespace {

using Form = ArchiveWriter::Form;

std::filesystem::path bundled(const SmallRecording& recording, Form form, const std::string& name) {
  const Model model = open_model(recording.folder.path());
  BundleParts parts{model.recording(), model.parameters()};
  parts.capabilities = {kForward, kTrace};
  const std::filesystem::path path = recording.folder.path() / name;
  write_bundle(path, form, parts, catalogue());
  return path;
}

TEST(Bundles, GiveWhatTheRecordingGivesInBothForms) {
  const SmallRecording recording;
  const LoadedModel::Tensors inputs{{"x", recording.goldens.at("input:x")}};
  const Array expected = load_model(recording.manifest().string()).forward(inputs).at("output");
  for (const Form form : {Form::folder, Form::file}) {
    const LoadedModel model = load_model(bundled(recording, form, form == Form::file ? "file" : "folder").string(),
                                         {.check_weights = true});
    EXPECT_TRUE(model.forward(inputs).at("output").same_bytes(expected));
    EXPECT_EQ(model.kind(), "small.Small");
    EXPECT_TRUE(model.can("trace"));
    EXPECT_FALSE(model.can("causal_lm"));
    EXPECT_FALSE(model.has_tokenizer());
    size_t taps = 0;
    load_model(recording.manifest().string(), {.backend = "reference"}).trace(inputs, [&](const std::string&, const Array&) {
      ++taps;
    });
    EXPECT_EQ(taps, 5u);
  }
}

TEST(Bundles, AModelIsUsedBySeveralThreads) {
  const SmallRecording recording;
  const LoadedModel model = load_model(bundled(recording, Form::file, "file").string());
  const LoadedModel::Tensors inputs{{"x", recording.goldens.at("input:x")}};
  const Array expected = model.forward(inputs).at("output");
  std::vector<std::thread> threads;
  std::atomic<int> same = 0;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) same += model.forward(inputs).at("output").same_bytes(expected);
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(same, 400);
}

TEST(Bundles, WhatTheyDoNotHaveIsAnErrorThatSaysSo) {
  const SmallRecording recording;
  const LoadedModel model = load_model(bundled(recording, Form::folder, "folder").string());
  EXPECT_EQ(error_of([&] { model.new_cache(1, 8); }).message(), "this bundle has no decode step");
  EXPECT_EQ(error_of([&] { model.tokenizer(); }).message(), "small has no tokenizer.json");
  EXPECT_EQ(error_of([&] { load_model(recording.manifest().string(), {.backend = "gpu"}); }).code(), ErrorCode::usage);
}

TEST(Bundles, AWriterThatIsNotCommittedLeavesNothing) {
  const TemporaryFolder folder;
  for (const Form form : {Form::folder, Form::file}) {
    ArchiveWriter writer(folder.path() / "x", form);
    writer.begin("a");
    writer.write("text");
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Bundles, SectionsOfAFileComeBackAligned) {
  const TemporaryFolder folder;
  ArchiveWriter writer(folder.path() / "x", Form::file);
  writer.begin("a");
  writer.write("odd");
  writer.begin("b");
  writer.align();
  writer.write("text");
  writer.commit();
  const Archive archive = Archive::open(folder.path() / "x");
  EXPECT_EQ(archive.section("a").text(), "odd");
  EXPECT_EQ(archive.section("b").text(), "text");
  EXPECT_EQ(reinterpret_cast<uintptr_t>(archive.section("b").bytes.data()) % 64, 0u);
  EXPECT_EQ(error_of([&] { archive.section("c"); }).code(), ErrorCode::bad_input);
}

// What is stored is what the kernels' own rounding gives, and storing it again changes nothing.
TEST(Bundles, NarrowWeightsAreThoseOfTheirFormat) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  constexpr int64_t kRows = 37, kColumns = 75;
  std::vector<float> x(kRows * kColumns);
  for (float& v : x) v = normal(random);
  x[5] = 0;
  for (const WeightFormat format : {WeightFormat::bf16, WeightFormat::f16, WeightFormat::int8, WeightFormat::int4}) {
    for (const int64_t axis : {0, 1}) {
      const MatrixPlace place = MatrixPlace::of(kRows, kColumns, axis);
      std::vector<std::byte> bytes(bytes_in(format, place.outputs, place.inputs)), again(bytes.size());
      to_bytes(format, x.data(), place, bytes.data());
      std::vector<float> back(x.size()), row(place.inputs), rounded(place.inputs);
      from_bytes(format, bytes.data(), place, back.data());
      to_bytes(format, back.data(), place, again.data());
      EXPECT_EQ(bytes, again) << name_of(format);
      for (int64_t o = 0; o < place.outputs; ++o) {
        for (int64_t i = 0; i < place.inputs; ++i) row[i] = x[o * place.output_stride + i * place.input_stride];
        round_trip(name_of(format))(row.data(), place.inputs, rounded.data());
        for (int64_t i = 0; i < place.inputs; ++i)
          EXPECT_FLOAT_EQ(back[o * place.output_stride + i * place.input_stride], rounded[i]) << name_of(format);
      }
    }
  }
}

}  // namespace
}  // namespace pycandle
