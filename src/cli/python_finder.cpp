#include "cli/python_finder.h"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "base/error.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) { return access(path.c_str(), X_OK) == 0 && !fs::is_directory(path); }

std::optional<std::string> in_folder(const fs::path& folder) {
  for (const char* name : {"python3", "python"}) {
    if (is_program(folder / name)) return (folder / name).string();
  }
  return std::nullopt;
}

std::vector<fs::path> path_folders() {
  std::vector<fs::path> folders;
  const char* path = std::getenv("PATH");
  std::stringstream stream(path == nullptr ? "" : path);
  for (std::string folder; std::getline(stream, folder, ':');) folders.emplace_back(folder);
  return folders;
}

std::string invoked_as;

// The folder of the link that was called, then that of the executable itself.
std::vector<fs::path> folders_beside() {
  std::vector<fs::path> folders;
  if (invoked_as.find('/') != std::string::npos) {
    folders.push_back(fs::path(invoked_as).parent_path());
  } else {
    for (const fs::path& folder : path_folders()) {
      if (!invoked_as.empty() && is_program(folder / invoked_as)) {
        folders.push_back(folder);
        break;
      }
    }
  }
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (!error) folders.push_back(self.parent_path());
  return folders;
}

}  // namespace

void remember_invocation(const char* argv0) { invoked_as = argv0 == nullptr ? "" : argv0; }

std::optional<FoundPython> find_python(const std::string& from_option) {
  if (!from_option.empty()) return FoundPython{from_option, "--python"};
  if (const char* named = std::getenv("PYCANDLE_PYTHON"); named != nullptr && *named != '\0') {
    return FoundPython{named, "PYCANDLE_PYTHON"};
  }
  if (auto python = in_folder(".pycandle/venv/bin")) return FoundPython{*python, "this folder's .pycandle/venv"};
  for (const fs::path& folder : folders_beside()) {
    if (auto python = in_folder(folder)) return FoundPython{*python, "beside the program"};
  }
  for (const fs::path& folder : path_folders()) {
    if (auto python = in_folder(folder)) return FoundPython{*python, "PATH"};
  }
  return std::nullopt;
}

namespace {

// Folders named lib beside this program, and those of a Python package.
std::vector<fs::path> libraries_beside() {
  std::vector<fs::path> libraries;
  std::error_code error;
  for (const fs::path& folder : folders_beside()) {
    const fs::path prefix = fs::weakly_canonical(folder, error).parent_path();
    for (const char* name : {"lib", "lib64"}) libraries.push_back(prefix / name);
    for (const fs::directory_entry& entry : fs::directory_iterator(prefix / "lib", error)) {
      if (entry.path().filename().string().starts_with("python3"))
        libraries.push_back(entry.path() / "site-packages/pycandle/lib");
      if (fs::exists(entry.path() / "cmake/pycandle", error)) libraries.push_back(entry.path());  // lib/x86_64-linux-gnu
    }
  }
  return libraries;
}

}  // namespace

std::optional<std::string> find_cmake_package() {
  std::error_code error;
  for (const fs::path& library : libraries_beside()) {
    const fs::path package = library / "cmake/pycandle";
    if (fs::exists(package / "pycandleConfig.cmake", error)) return package.string();
  }
  return std::nullopt;
}

std::string find_crate() {
  std::error_code error;
  for (const fs::path& library : libraries_beside()) {
    const fs::path crate = library / "rust/pycandle";
    if (fs::exists(crate / "Cargo.toml", error)) return fs::weakly_canonical(crate, error).string();
  }
  throw Error(ErrorCode::bad_input, "there is no Rust crate beside this program")
      .expected("lib/rust/pycandle/Cargo.toml")
      .hint("make build puts it there, as the wheel does");
}

std::string find_backend_tests() {
  std::error_code error;
  for (const fs::path& library : libraries_beside()) {
    const fs::path tests = library / "backend_tests";
    if (fs::exists(tests / "cases.jsonl", error)) return tests.string();
  }
  throw Error(ErrorCode::bad_input, "there are no backend tests beside this program")
      .expected("lib/backend_tests/cases.jsonl")
      .hint("cmake --install puts them there, as the wheel does; --pack names another folder");
}

}  // namespace pycandle::cli
