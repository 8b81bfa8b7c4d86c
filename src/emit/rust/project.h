// A crate around an emitted model: Cargo.toml, the tests that hold it against PyTorch's values, its benchmark.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "emit/rust/printer.h"

namespace pycandle::emit::rust {

struct Crate {
  std::string name;                  // of the package: "my_llm"
  std::string recording, folder;     // its name, and where it is as seen from the crate
  std::filesystem::path runtime;     // of the crate `pycandle`
};

struct CrateFile {
  std::string path, text;
};

std::string print_test(const PrintedModel&, const Crate&);
std::string print_benchmark(const PrintedModel&, const Crate&);
// Cargo.toml and what else stays as a person leaves it.
std::vector<CrateFile> crate_files(const PrintedModel&, const Crate&);
// The same for a crate without a model yet.
std::vector<CrateFile> new_crate_files(const std::string& name, const std::string& model, const std::filesystem::path& runtime);
// "my-llm" → my_llm: what the package's library is called.
std::string library_name(const std::string& package);

// As rustfmt leaves it, where there is one; else as it is.
std::string formatted(const std::string& text);

}  // namespace pycandle::emit::rust
