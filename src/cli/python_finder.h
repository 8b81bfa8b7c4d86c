// Finds the Python that recording needs: --python, PYCANDLE_PYTHON, the environment that `pycandle init` made in this
// folder, the environment beside the binary, then PATH.
#pragma once

#include <optional>
#include <string>

namespace pycandle::cli {

struct FoundPython {
  std::string path;
  std::string how;  // "--python", "PYCANDLE_PYTHON", "this folder's .pycandle/venv", "beside the program", "PATH"
};

// argv[0]: the program may be a link in the environment's bin folder, and that folder is the one that counts.
void remember_invocation(const char* argv0);
std::optional<FoundPython> find_python(const std::string& from_option = {});
// Where find_package(pycandle) looks: beside the program, as cmake --install and the wheel put it. Nothing when it is not there.
std::optional<std::string> find_cmake_package();
// The folder of the Rust crate `pycandle`, which emitted Candle code depends on.
std::string find_crate();
// The folder of the tests that `pycandle test-backend` runs.
std::string find_backend_tests();

}  // namespace pycandle::cli
