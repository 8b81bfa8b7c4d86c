// What `pycandle codegen` does for every language: options, import, and what happens to the files.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/command.h"
#include "emit/files.h"
#include "import/importer.h"

namespace pycandle::cli {

struct CodegenOptions {
  std::string manifest, out, model, target;
  bool analyze_only = false, allow_gaps = false, without_weights = false, diff = false, check = false, merge = false,
       stateful = false;
  // --target c
  std::vector<std::string> sizes;
  std::string weights = "f32", batch;
  bool embed_weights = false, freestanding = false, report = false;
};

// In program form.
Recording imported_for_code(const CodegenOptions&);
// Where the manifest is, as seen from the project's folder.
std::string manifest_from(const std::string& manifest, const std::filesystem::path& project);
// Writes the files, or shows what would change. facts: of the model, for --json. around: writes what else a project has.
void finish_codegen(const CodegenOptions&, Context&, emit::EmittedFiles&, Json facts, const std::function<void()>& around);

// Rust on Candle: --target candle, a .rs file, or a Cargo.toml beside the output.
bool wants_candle(const CodegenOptions&);
void generate_candle(const CodegenOptions&, Context&);
// A C library: --target c, or a .c file.
bool wants_c(const CodegenOptions&);
void generate_c(const CodegenOptions&, Context&);
// gen-test and gen-bench of a crate: tests/parity.rs, benches/inference.rs. Returns the struct that the program is for.
enum class CandleProgram { test, benchmark };
std::string write_candle_program(const CodegenOptions&, CandleProgram);

}  // namespace pycandle::cli
