// The files of a project that ships a model: what `pycandle new` and `pycandle init` write.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pycandle::cli {

struct ProjectFile {
  std::filesystem::path path;  // from the project's folder
  std::string text;
};

// CMake, presets, README and the like, for a C++ program around src/model.hpp.
std::vector<ProjectFile> project_files(const std::string& name, const std::string& model);
// Cargo.toml, README and the like, for a Rust crate around src/lib.rs.
std::vector<ProjectFile> candle_project_files(const std::string& name, const std::string& model);
// The same around a model that codegen wrote: the README says from what.
struct EmittedFrom {
  std::string recording, manifest;  // its name, and where it is as seen from the project
  std::string facts;                // a line: class, torch, inputs
};
std::vector<ProjectFile> emitted_project_files(const std::string& name, const std::string& model, const EmittedFrom&);
// .pycandle/scripts: what `pycandle record` runs.
std::vector<ProjectFile> recorder_files(const std::string& name, int seed);

// Writes those that are not there yet; says of each whether it was.
struct Written {
  std::vector<std::string> created, kept;
};
Written write_absent(const std::filesystem::path& folder, const std::vector<ProjectFile>&);

}  // namespace pycandle::cli
