// pycandle codegen --target candle: a recorded model as Rust source on Candle.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include "base/file.h"
#include "cli/codegen.h"
#include "cli/python_finder.h"
#include "cli/scaffold.h"
#include "cli/terminal.h"
#include "emit/rust/project.h"
#include "emit/rust/text.h"
#include "ops/core/catalogue.h"
#include "passes/decode_step.h"
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

// The folder's name where Cargo takes it: `crate` is a keyword, `3d` and `my.model` are no names.
std::string package_name(const std::string& folder) {
  const auto is_letter = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '-'; };
  const bool is_name = !folder.empty() && std::isdigit(static_cast<unsigned char>(folder[0])) == 0 &&
                       std::all_of(folder.begin(), folder.end(), is_letter);
  const std::string name = emit::rust::rust_name(is_name ? folder : "model_" + folder);
  return is_name && name.back() != '_' ? folder : name;
}

// Of the crate that is there: a person may have named it.
std::string package_in(const fs::path& crate) {
  const fs::path path = crate / "Cargo.toml";
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) return {};
  const std::string text = read_text(path);
  const std::string_view key = "\nname = \"";
  const size_t at = text.find(key, text.find("[package]"));
  if (at == std::string::npos) return {};
  const size_t begin = at + key.size();
  return text.substr(begin, text.find('"', begin) - begin);
}

// src/lib.rs of a crate: its test is written with it.
bool is_library_of_crate(const fs::path& out) {
  std::error_code failure;
  return out.filename() == "lib.rs" && crate_folder(out) != fs::absolute(out).lexically_normal().parent_path() &&
         fs::is_regular_file(crate_folder(out) / "Cargo.toml", failure);
}

emit::rust::Crate crate_of(const CodegenOptions& options, const std::string& recording) {
  const fs::path folder = fs::absolute(crate_folder(options.out)).lexically_normal();
  const std::string name = (folder.has_filename() ? folder : folder.parent_path()).filename().string();
  const std::string known = package_in(folder);
  return {known.empty() ? package_name(name) : known, recording,
          fs::path(manifest_from(options.manifest, folder)).parent_path().generic_string(), find_crate()};
}

// What a benchmark needs in Cargo.toml, unless a person has put it there.
void add_criterion(const fs::path& crate) {
  const fs::path path = crate / "Cargo.toml";
  std::error_code failure;
  if (!fs::is_regular_file(path, failure)) return;
  const std::string text = read_text(path);
  if (text.find("criterion") != std::string::npos) return;
  write_text(path, text + "\n[dev-dependencies]\ncriterion = \"0.5\"\n\n[[bench]]\nname = \"inference\"\nharness = false\n");
}

// Where a value has a place for each token.
template <class Named> int token_axis(const Program& p, const Named& named, const std::string& tokens) {
  const Shape& shape = p.graph.type(named.value).shape;
  const auto axis = std::find_if(shape.begin(), shape.end(), [&](const Dim d) { return d.text() == tokens; });
  return axis == shape.end() ? -1 : static_cast<int>(axis - shape.begin());
}

emit::rust::PrintedModel printed_model(Recording recording, const CodegenOptions& options) {
  Program program = std::move(recording.program);
  std::string tokens;
  if (options.stateful) {
    DecodeStep derived = decode_step_in_code(program, catalogue());
    program = std::move(derived.step);
    tokens = derived.tokens;
  }
  program = emit::rust::prepared(std::move(program), catalogue());
  emit::rust::PrintedModel printed = emit::rust::print_module(emit::rust::recovered(program, catalogue()), options.model);
  if (!options.stateful) return printed;
  for (const std::string& name : printed.inputs) {
    for (const Input& input : program.inputs) {
      if (input.name == name) printed.input_axes.push_back(token_axis(program, input, tokens));
    }
  }
  for (const Output& output : program.outputs) printed.output_axes.push_back(token_axis(program, output, tokens));
  return printed;
}

}  // namespace

std::string write_candle_program(const CodegenOptions& options, CandleProgram kind) {
  Recording recording = imported_for_code(options);
  CodegenOptions around = options;  // benches/inference.rs and tests/parity.rs are one folder below Cargo.toml
  around.out = fs::absolute(options.out).lexically_normal().parent_path().parent_path().string();
  const emit::rust::Crate crate = crate_of(around, recording.program.name);
  const emit::rust::PrintedModel printed = printed_model(std::move(recording), options);
  const bool is_test = kind == CandleProgram::test;
  const fs::path out(options.out);
  const std::string text = is_test ? emit::rust::print_test(printed, crate) : emit::rust::print_benchmark(printed, crate);
  emit::EmittedFiles files(out.parent_path(), {{out.filename(), text}});
  if (options.diff) {
    fmt::print("{}", files.diff());
    return printed.name;
  }
  if (options.merge) files.merge();
  files.write();
  if (is_test) {
    write_floor_file(options.manifest, Sums::in_any_order);
  } else {
    add_criterion(around.out);
  }
  return printed.name;
}

bool wants_candle(const CodegenOptions& options) {
  if (!options.target.empty()) return options.target == "candle";
  const fs::path out(options.out);
  std::error_code failure;
  if (is_rust_file(out)) return true;
  const std::string ending = out.extension().string();
  return ending.empty() && fs::is_regular_file(out / "Cargo.toml", failure);
}

void generate_candle(const CodegenOptions& options, Context& context) {
  Progress progress("codegen");
  Recording recording = imported_for_code(options);
  const std::string name = recording.program.name;
  const emit::rust::PrintedModel printed = printed_model(std::move(recording), options);
  const std::string text = emit::rust::formatted(printed.text);
  const fs::path out(options.out);
  const emit::rust::Crate crate = crate_of(options, name);
  std::vector<emit::EmittedFile> files;
  const bool is_file = is_rust_file(out) && !is_library_of_crate(out);
  if (is_file) {
    files.emplace_back(out.filename(), text);
  } else {
    files.emplace_back("src/lib.rs", text);
    files.emplace_back("tests/parity.rs", emit::rust::print_test(printed, crate));
  }
  const fs::path folder = is_file ? out.parent_path() : crate_folder(out);
  emit::EmittedFiles emitted(folder, std::move(files));
  progress.finish();
  finish_codegen(options, context, emitted, {{"model", printed.name}, {"notes", printed.notes}}, [&] {
    std::vector<ProjectFile> around;
    for (emit::rust::CrateFile& file : emit::rust::crate_files(printed, crate))
      around.push_back({file.path, std::move(file.text)});
    write_absent(folder, around);
    write_floor_file(options.manifest, Sums::in_any_order);
  });
}

}  // namespace pycandle::cli
