// pycandle gen-test and gen-bench: the programs around an emitted model.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "base/file.h"
#include "base/json.h"
#include "cli/codegen.h"
#include "cli/command.h"
#include "emit/cpp/harness.h"
#include "emit/cpp/printer.h"
#include "emit/files.h"
#include "import/importer.h"
#include "ops/core/catalogue.h"
#include "passes/decode_step.h"
#include "passes/pipeline.h"
#include "verify/floor_file.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string manifest = "pycandle_trace", model, out, header = "model.hpp";
  bool diff = false, merge = false, stateful = false;
};

// The header that the program will include, where a project has it; empty when it is not written yet.
std::string header_text(const Options& options) {
  const fs::path folder = fs::absolute(options.out).parent_path();
  std::error_code error;
  for (const fs::path& path : {folder / options.header, folder.parent_path() / "src" / options.header}) {
    if (fs::is_regular_file(path, error)) return read_text(path);
  }
  return {};
}

// A header that is there must have the model; its namespace is the one that counts, as somebody may have renamed it.
void look_into_header(const std::string& text, emit::cpp::Harness& harness) {
  std::vector<std::string> models;
  std::smatch found;
  static const std::regex model(R"(\nstruct (\w+) : nn::Module<)"), space(R"(\nnamespace (\w+) \{)");
  for (std::sregex_iterator at(text.begin(), text.end(), model), end; at != end; ++at) models.push_back((*at)[1]);
  if (models.empty()) return;
  if (std::find(models.begin(), models.end(), harness.model) == models.end()) {
    throw Error(ErrorCode::usage, fmt::format("{} has no model of that name", harness.header))
        .expected("--model " + models.back())
        .found(harness.model);
  }
  if (std::regex_search(text, found, space)) harness.name_space = found[1];
}

emit::cpp::Harness harness_for(const Options& options) {
  const fs::path manifest = find_manifest(options.manifest);
  Recording recording = import_manifest(manifest, catalogue());
  emit::cpp::Harness harness;
  harness.recording = recording.program.name;
  harness.folder = manifest.parent_path().generic_string();
  harness.header = options.header;
  Program program = run_program_pipeline(std::move(recording.program), catalogue());
  if (options.stateful) program = decode_step_in_code(program, catalogue()).step;
  const emit::ModelTree tree = emit::recover(std::move(program), catalogue());
  const emit::cpp::PrintedModel printed = emit::cpp::print_header(tree, options.model);
  harness.model = printed.name;
  harness.name_space = printed.name_space;
  harness.is_random = printed.is_random;
  harness.has_states = printed.has_states;
  harness.has_cache = printed.has_cache;
  look_into_header(header_text(options), harness);
  return harness;
}

// A .rs file is for a crate on Candle.
void write_rust(const Options& options, Context& context, bool is_test) {
  CodegenOptions given;
  given.manifest = options.manifest;
  given.out = options.out;
  given.model = options.model;
  given.stateful = options.stateful;
  given.diff = options.diff;
  given.merge = options.merge;
  const std::string model = write_candle_program(given, is_test ? CandleProgram::test : CandleProgram::benchmark);
  if (options.diff) return;
  if (context.json) {
    fmt::print("{}\n", Json{{"path", options.out}, {"model", model}}.dump(2));
  } else {
    fmt::print("wrote {} for {}\n", options.out, model);
  }
}

void add(Command& app, Context& context, const std::string& name, const std::string& summary, const std::string& example,
         std::string (*print)(const emit::cpp::Harness&)) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, name, summary, example);
  command.add_option("--manifest", options->manifest, "a manifest, or the folder of one (pycandle_trace)");
  command.add_option("--model", options->model, "the emitted class, as given to codegen; Python's by default");
  command.add_option("--out", options->out, "the file to write").required();
  command.add_option("--header", options->header, "what to include (model.hpp)");
  command.add_flag("--stateful", options->stateful, "of a decode step, as codegen --stateful writes it");
  command.add_flag("--diff", options->diff, "write nothing: show what would change");
  command.add_flag("--merge", options->merge, "keep your edits where the new text does not touch the same lines");
  command.callback([options, &context, print] {
    if (fs::path(options->out).extension() == ".rs") return write_rust(*options, context, print == emit::cpp::print_test);
    const emit::cpp::Harness harness = harness_for(*options);
    const fs::path out(options->out);
    emit::EmittedFiles files(out.parent_path(), {{out.filename(), print(harness)}});
    if (options->diff) return fmt::print("{}", files.diff());
    if (options->merge) files.merge();
    files.write();
    if (print == emit::cpp::print_test) write_floor_file(options->manifest);
    if (context.json) {
      fmt::print("{}\n", Json{{"path", options->out}, {"model", harness.model}, {"namespace", harness.name_space}}.dump(2));
    } else {
      fmt::print("wrote {} for {}::{}\n", options->out, harness.name_space, harness.model);
    }
  });
}

}  // namespace

void add_gen_test(Command& app, Context& context) {
  add(app, context, "gen-test", "write the GoogleTest program that holds an emitted model against PyTorch's values",
      "pycandle gen-test --manifest pycandle_trace --model GPT2 --out tests/test_model.cpp", emit::cpp::print_test);
}

void add_gen_bench(Command& app, Context& context) {
  add(app, context, "gen-bench", "write the Google Benchmark program of an emitted model",
      "pycandle gen-bench --manifest pycandle_trace --model GPT2 --out benches/bench_model.cpp", emit::cpp::print_benchmark);
}

}  // namespace pycandle::cli
