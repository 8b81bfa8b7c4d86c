#include "emit/cpp/project.h"

#include <filesystem>

#include "emit/cpp/harness.h"

namespace pycandle::emit::cpp {

std::vector<EmittedFile> project_sources(const PrintedModel& printed, const ProvenHeader& header,
                                         const std::string& recording_name, const std::string& manifest) {
  Harness harness{printed.name, printed.name_space, "model.hpp",        recording_name,
                  {},           printed.is_random,  printed.has_states, printed.has_cache};
  harness.folder = std::filesystem::path(manifest).parent_path().generic_string();
  return {{"src/model.hpp", header},
          {"src/main.cpp", print_program(harness)},
          {"tests/test_model.cpp", print_test(harness)},
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
