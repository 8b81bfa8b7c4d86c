#include "cli/scaffold.h"

#include <string_view>

#include "base/error.h"
#include "base/file.h"
#include "cli/python_finder.h"
#include "emit/cpp/text.h"
#include "emit/rust/project.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCMakeLists = R"text(cmake_minimum_required(VERSION 3.25)
project(@NAME@ LANGUAGES CXX)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
add_compile_options(-Wall -Wextra)
find_package(pycandle QUIET)
if(NOT pycandle_FOUND)  # then the one that the program on the PATH brought with it
  execute_process(COMMAND pycandle --cmake-dir OUTPUT_VARIABLE pycandle_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
  find_package(pycandle REQUIRED)
endif()

add_library(model INTERFACE)  # src/model.hpp, as `pycandle codegen` writes it
target_include_directories(model INTERFACE src)
target_link_libraries(model INTERFACE pycandle::pycandle)

# Every src/*.cpp is a program; model.hpp is compiled even when none includes it.
file(GLOB programs CONFIGURE_DEPENDS src/*.cpp)
foreach(source IN LISTS programs)
  get_filename_component(program "${source}" NAME_WE)
  add_executable(${program} "${source}")
  target_link_libraries(${program} PRIVATE model)
endforeach()
if(EXISTS "${PROJECT_SOURCE_DIR}/src/model.hpp")
  file(CONFIGURE OUTPUT model.cpp CONTENT "#include \"model.hpp\"\n")
  add_library(model_compiles OBJECT "${PROJECT_BINARY_DIR}/model.cpp")
  target_link_libraries(model_compiles PRIVATE model)
endif()

# Every tests/*.cpp is a GoogleTest program; it runs in this folder, where pycandle_trace/ is.
enable_testing()
file(GLOB tests CONFIGURE_DEPENDS tests/*.cpp)
if(tests)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
foreach(source IN LISTS tests)
  get_filename_component(test "${source}" NAME_WE)
  add_executable(${test} "${source}")
  target_link_libraries(${test} PRIVATE model GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${test} WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}" DISCOVERY_MODE PRE_TEST)
endforeach()

# Every benches/*.cpp is a Google Benchmark program: cmake --build build/release --target bench
file(GLOB benches CONFIGURE_DEPENDS benches/*.cpp)
if(benches)
  find_package(benchmark REQUIRED)
endif()
foreach(source IN LISTS benches)
  get_filename_component(bench "${source}" NAME_WE)
  add_executable(${bench} "${source}")
  target_link_libraries(${bench} PRIVATE model benchmark::benchmark benchmark::benchmark_main)
endforeach()
)text";

constexpr const char* kPresets = R"text({
  "version": 6,
  "configurePresets": [
    {
      "name": "base",
      "hidden": true,
      "binaryDir": "${sourceDir}/build/${presetName}"
    },
    {
      "name": "release",
      "inherits": "base",
      "cacheVariables": { "CMAKE_BUILD_TYPE": "Release" }
    },
    {
      "name": "debug",
      "inherits": "base",
      "cacheVariables": { "CMAKE_BUILD_TYPE": "Debug" }
    }
  ],
  "buildPresets": [
    { "name": "release", "configurePreset": "release" },
    { "name": "debug", "configurePreset": "debug" }
  ],
  "testPresets": [
    {
      "name": "release",
      "configurePreset": "release",
      "output": { "outputOnFailure": true }
    },
    {
      "name": "debug",
      "configurePreset": "debug",
      "output": { "outputOnFailure": true }
    }
  ]
}
)text";

constexpr const char* kReadme = R"text(# @NAME@

@MODEL@, from PyTorch to C++ with PyCandle.

1. `pycandle init` makes `.pycandle/` with the recording script.
2. Edit `.pycandle/scripts/recorder.py` so that it builds and loads @MODEL@.
3. `pycandle record --script .pycandle/scripts/recorder.py --name @NAME@` writes `pycandle_trace/`.
4. `pycandle verify pycandle_trace/@NAME@_manifest.json` compares our values with PyTorch's, layer by layer.
5. `pycandle codegen --manifest pycandle_trace/@NAME@_manifest.json --model @MODEL@ --out src/model.hpp`
6. `pycandle gen-test --manifest pycandle_trace/@NAME@_manifest.json --model @MODEL@ --out tests/test_model.cpp`
7. Build and test:

```sh
cmake --preset release
cmake --build --preset release
ctest --preset release
```

`src/*.cpp` are programs, `tests/*.cpp` tests, `benches/*.cpp` benchmarks; CMake finds new ones.
)text";

constexpr const char* kEmittedReadme = R"text(# @NAME@

@MODEL@ in C++, written by `pycandle codegen` from the recording `@RECORDING@` (`@MANIFEST@`):
@ORIGIN@

```sh
cmake --preset release
cmake --build --preset release
ctest --preset release      # layer by layer against PyTorch's values
build/release/main          # runs the model on the recorded inputs
```

| file | what |
|---|---|
| `src/model.hpp` | the model |
| `src/main.cpp` | runs it; `build/release/main FOLDER` takes another recording of the same model |
| `tests/test_model.cpp` | is it the recorded program, and does it give PyTorch's values |
| `accepted.json` | when `pycandle accept` wrote one: who accepted which change, and why |

The recording is looked for from this folder. `PYCANDLE_TRACE=FOLDER` names another place.
After a change of the code that is meant, run the tests, then `pycandle accept . --reason "…"`.
`pycandle codegen --manifest @MANIFEST@ --out . --merge` writes the code again and keeps your changes.
)text";

constexpr const char* kGitignore = R"text(/build/
/.pycandle/captured/
/.pycandle/venv/
__pycache__/
*.safetensors
)text";

constexpr const char* kProject = R"text({
  "name": "@NAME@",
  "model": "@MODEL@"
}
)text";

constexpr const char* kRecorder = R"text("""Records the model for `pycandle record`. Edit make_model() and example_inputs()."""

import torch
from spy import GoldenRecorder

SEED = @SEED@


def make_model() -> torch.nn.Module:
    # TODO: build your model and load its weights. This one stands here so that the script runs as it is.
    return torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.Linear(32, 4))


def example_inputs() -> tuple:
    # TODO: what the model is called with. Batch (and sequence, for tokens) stay open for other sizes.
    return (torch.randn(2, 16),)


torch.manual_seed(SEED)
model = make_model().eval()
recorder = GoldenRecorder(output_dir="../../pycandle_trace", seed=SEED)
recorder.record(model, *example_inputs())
recorder.save("@NAME@")
)text";

constexpr const char* kSpy =
    R"text("""`from spy import GoldenRecorder`, for scripts in this folder that are run by Python itself."""

from pycandle.spy import GoldenRecorder

__all__ = ["GoldenRecorder"]
)text";

constexpr const char* kWeightExtractor = R"text(# /// script
# requires-python = ">=3.11"
# dependencies = []
# ///
"""Writes exactly the weights that a recorded program needs, out of a checkpoint, without loading the model.

    uv run .pycandle/scripts/weight_extractor.py --checkpoint large_model.bin \\
        --manifest .pycandle/traces/large_model_meta_manifest.json --out .pycandle/traces/large_model_weights.safetensors

`pycandle weights extract` does the same. This script finds pycandle in .pycandle/venv, whatever Python runs it.
"""

import os
import sys
from pathlib import Path

ENVIRONMENT = Path(__file__).resolve().parent.parent / "venv/bin/python"

try:
    from pycandle.weights import main
except ImportError:
    if not ENVIRONMENT.exists() or os.environ.get("PYCANDLE_EXTRACTOR"):
        sys.exit("error: pycandle is not there; run pycandle init, or pycandle weights extract")
    os.environ["PYCANDLE_EXTRACTOR"] = "1"  # once
    os.execv(ENVIRONMENT, [str(ENVIRONMENT), *sys.argv])

if __name__ == "__main__":
    sys.exit(main())
)text";

}  // namespace

std::vector<ProjectFile> project_files(const std::string& name, const std::string& model) {
  std::vector<ProjectFile> files = {{"CMakeLists.txt", kCMakeLists},
                                    {"CMakePresets.json", kPresets},
                                    {"README.md", kReadme},
                                    {".gitignore", kGitignore},
                                    {"src/.gitkeep", ""},
                                    {"tests/.gitkeep", ""},
                                    {".pycandle/project.json", kProject}};
  for (ProjectFile& file : files) file.text = emit::cpp::filled(emit::cpp::filled(file.text, "@NAME@", name), "@MODEL@", model);
  return files;
}

std::vector<ProjectFile> candle_project_files(const std::string& name, const std::string& model) {
  std::vector<ProjectFile> files;
  for (emit::rust::CrateFile& file : emit::rust::new_crate_files(name, model, find_crate()))
    files.push_back({file.path, std::move(file.text)});
  files.push_back({".pycandle/project.json", emit::cpp::filled(emit::cpp::filled(kProject, "@NAME@", name), "@MODEL@", model)});
  return files;
}

std::vector<ProjectFile> emitted_project_files(const std::string& name, const std::string& model, const EmittedFrom& from) {
  std::vector<ProjectFile> files = project_files(name, model);
  const std::pair<const char*, std::string> places[] = {{"@NAME@", name},
                                                        {"@MODEL@", model},
                                                        {"@RECORDING@", from.recording},
                                                        {"@MANIFEST@", from.manifest},
                                                        {"@ORIGIN@", from.facts}};
  for (ProjectFile& file : files) {
    if (file.path != "README.md") continue;
    file.text = kEmittedReadme;
    for (const auto& [place, value] : places) file.text = emit::cpp::filled(file.text, place, value);
  }
  return files;
}

std::vector<ProjectFile> recorder_files(const std::string& name, int seed) {
  return {{".pycandle/scripts/recorder.py",
           emit::cpp::filled(emit::cpp::filled(kRecorder, "@NAME@", name), "@SEED@", std::to_string(seed))},
          {".pycandle/scripts/spy.py", kSpy},
          {".pycandle/scripts/weight_extractor.py", kWeightExtractor}};
}

Written write_absent(const fs::path& folder, const std::vector<ProjectFile>& files) {
  Written written;
  for (const ProjectFile& file : files) {
    const fs::path path = folder / file.path;
    if (fs::exists(fs::symlink_status(path))) {
      written.kept.push_back(file.path.string());
      continue;
    }
    std::error_code failed;
    fs::create_directories(path.parent_path(), failed);
    if (failed) {
      throw Error(ErrorCode::bad_input, "the folder " + path.parent_path().string() + " cannot be made")
          .found(failed.message())
          .hint("choose a folder that you may write to");
    }
    write_text(path, file.text);
    written.created.push_back(file.path.string());
  }
  return written;
}

}  // namespace pycandle::cli
