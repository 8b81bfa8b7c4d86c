// pycandle codegen --target candle: a recorded model as Rust source on Candle.
#include <fmt/format.h>

#include <filesystem>

#include "cli/codegen.h"
#include "cli/python_finder.h"
#include "cli/scaffold.h"
#include "cli/terminal.h"
#include "emit/rust/project.h"
#include "ops/core/catalogue.h"
#include "verify/floor_file.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

bool is_rust_file(const fs::path& out) { return out.extension() == ".rs"; }

// The folder in which Cargo.toml stands or will stand: src/lib.rs is in the one above.
fs::path crate_folder(const fs::path& out) {
  if (!is_rust_file(out)) return out;
  const fs::path folder = fs::absolute(out).lexically_normal().parent_path();
  return folder.filename() == "src" ? folder.parent_path() : folder;
}

emit::rust::Crate crate_of(const CodegenOptions& options, const std::string& recording) {
  const fs::path folder = fs::absolute(crate_folder(options.out)).lexically_normal();
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  return {name, recording, fs::path(manifest_from(options.manifest, folder)).parent_path().generic_string(), find_crate()};
}

}  // namespace

bool wants_candle(const CodegenOptions& options) {
  if (!options.target.empty()) return options.target == "candle";
  const fs::path out(options.out);
  std::error_code failure;
  if (is_rust_file(out)) return true;
  const std::string ending = out.extension().string();
  return ending.empty() && fs::is_regular_file(out / "Cargo.toml", failure);
}

void generate_candle(const CodegenOptions& options, Context& context) {
  if (options.stateful) {
    throw Error(ErrorCode::gap, "the decode step has no form in Rust yet")
        .hint("--target cpp has it; without --stateful the whole model is written");
  }
  Progress progress("codegen");
  Recording recording = imported_for_code(options);
  const std::string name = recording.program.name;
  const emit::ModelTree tree = emit::rust::recovered(emit::rust::prepared(std::move(recording.program), catalogue()),
                                                     catalogue());
  const emit::rust::PrintedModel printed = emit::rust::print_module(tree, options.model);
  const std::string text = emit::rust::formatted(printed.text);
  const fs::path out(options.out);
  const emit::rust::Crate crate = crate_of(options, name);
  std::vector<emit::EmittedFile> files;
  if (is_rust_file(out)) {
    files.emplace_back(out.filename(), text);
  } else {
    files.emplace_back("src/lib.rs", text);
    files.emplace_back("tests/parity.rs", emit::rust::print_test(printed, crate));
  }
  emit::EmittedFiles emitted(is_rust_file(out) ? out.parent_path() : out, std::move(files));
  progress.finish();
  finish_codegen(options, context, emitted, {{"model", printed.name}, {"notes", printed.notes}}, [&] {
    std::vector<ProjectFile> around;
    for (emit::rust::CrateFile& file : emit::rust::crate_files(printed, crate))
      around.push_back({file.path, std::move(file.text)});
    write_absent(out, around);
    write_floor_file(options.manifest);
  });
}

}  // namespace pycandle::cli
