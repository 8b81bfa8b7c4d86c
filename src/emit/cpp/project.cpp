#include "emit/cpp/project.h"

#include <filesystem>

#include "ir/graph.h"

namespace pycandle::emit::cpp {
namespace {

constexpr const char* kMain = R"text(// Runs the model on the recorded inputs and says what came out.
#include <iostream>

#include "model.hpp"

int main(int argc, char** argv) {
  const std::string manifest = argc > 1 ? argv[1] : @MANIFEST@;
  const @SPACE@::@MODEL@ model(pycandle::Weights::open(manifest));
  const pycandle::Compiled run = pycandle::compile(model, pycandle::signature_of(manifest));
  const pycandle::Checker recorded = pycandle::Checker::load(@NAME@, @FOLDER@);
  for (const auto& [name, array] : run.run(recorded.inputs())) {
    std::cout << name << ":";
    for (const int64_t size : array.shape()) std::cout << " " << size;
    std::cout << "\n";
  }
  return 0;
}
)text";

constexpr const char* kTest = R"text(// The model in src/model.hpp is the program that was recorded, and gives what PyTorch gave.
#include <gtest/gtest.h>

#include "model.hpp"

namespace {

const std::string kManifest = @MANIFEST@;

TEST(@MODEL@, IsTheRecordedProgram) {
  const @SPACE@::@MODEL@ model(pycandle::Weights::open(kManifest));
  const pycandle::Compiled run = pycandle::compile(model, pycandle::signature_of(kManifest));
  const pycandle::RoundTrip trip = pycandle::round_trip(run, kManifest);
  EXPECT_TRUE(trip.equal) << trip.difference;
}

TEST(@MODEL@, GivesWhatPyTorchGaveLayerByLayer) {
  const pycandle::Checker checker = pycandle::Checker::load(@NAME@, @FOLDER@);
  const @SPACE@::@MODEL@ model(pycandle::Weights::open(kManifest), checker);
  const pycandle::Compiled run = pycandle::compile(model, pycandle::signature_of(kManifest));
  const auto outputs = run.run(checker.inputs());
  for (const auto& [name, golden] : checker.outputs()) {
    const pycandle::CheckResult result = checker.verify("@0/" + name, outputs.at(name));
    EXPECT_TRUE(result.passed) << result.why;
  }
}

}  // namespace
)text";

std::string filled(std::string text, std::string_view place, const std::string& value) {
  for (size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + value.size())) {
    text.replace(at, place.size(), value);
  }
  return text;
}

}  // namespace

std::vector<EmittedFile> project_sources(const PrintedModel& printed, const std::string& recording_name,
                                         const std::string& manifest) {
  const std::string folder = std::filesystem::path(manifest).parent_path().generic_string();
  const auto fill = [&](const char* text) {
    std::string out = filled(filled(text, "@SPACE@", printed.name_space), "@MODEL@", printed.name);
    out = filled(filled(out, "@MANIFEST@", pycandle::quoted(manifest)), "@NAME@", pycandle::quoted(recording_name));
    return filled(out, "@FOLDER@", pycandle::quoted(folder.empty() ? "." : folder));
  };
  return {{"src/model.hpp", printed.header},
          {"src/main.cpp", fill(kMain)},
          {"tests/model_test.cpp", fill(kTest)},
          {".clang-format", clang_format_style()}};
}

const char* clang_format_style() {
  return R"text(# The style of code that pycandle emits: lines are broken where it broke them.
BasedOnStyle: Google
ColumnLimit: 0
AlignAfterOpenBracket: DontAlign
AlignOperands: DontAlign
AllowShortFunctionsOnASingleLine: Inline
AllowShortLoopsOnASingleLine: true
BreakTemplateDeclarations: Yes
PackConstructorInitializers: Never
SortIncludes: Never
)text";
}

}  // namespace pycandle::emit::cpp
