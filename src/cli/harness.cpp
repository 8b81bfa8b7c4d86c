// pycandle gen-test and gen-bench: the programs around an emitted model.
#include <fmt/format.h>

#include <filesystem>

#include "base/json.h"
#include "cli/command.h"
#include "emit/cpp/harness.h"
#include "emit/cpp/printer.h"
#include "emit/files.h"
#include "import/importer.h"
#include "ops/catalogue.h"
#include "passes/pipeline.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string manifest, model, out, header = "model.hpp";
  bool merge = false;
};

emit::cpp::Harness harness_for(const Options& options) {
  const fs::path manifest = find_manifest(options.manifest);
  Recording recording = import_manifest(manifest, catalogue());
  emit::cpp::Harness harness;
  harness.recording = recording.program.name;
  harness.folder = manifest.parent_path().generic_string();
  harness.header = options.header;
  const emit::ModelTree tree = emit::recover(run_program_pipeline(std::move(recording.program), catalogue()), catalogue());
  const emit::cpp::PrintedModel printed = emit::cpp::print_header(tree, options.model);
  harness.model = printed.name;
  harness.name_space = printed.name_space;
  return harness;
}

void add(CLI::App& app, Context& context, const std::string& name, const std::string& summary, const std::string& example,
         std::string (*print)(const emit::cpp::Harness&)) {
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, context, name, summary, example);
  command->add_option("--manifest", options->manifest, "a manifest, or the folder of one")->required();
  command->add_option("--model", options->model, "the emitted class, as given to codegen; Python's by default");
  command->add_option("--out", options->out, "the file to write")->required();
  command->add_option("--header", options->header, "what to include (model.hpp)");
  command->add_flag("--merge", options->merge, "keep what was edited since, where it is not the same lines");
  command->callback([options, &context, print] {
    const emit::cpp::Harness harness = harness_for(*options);
    const fs::path out(options->out);
    emit::EmittedFiles files(out.parent_path(), {{out.filename(), print(harness)}});
    if (options->merge) files.merge();
    files.write();
    if (context.json) {
      fmt::print("{}\n", Json{{"path", options->out}, {"model", harness.model}, {"namespace", harness.name_space}}.dump(2));
    } else {
      fmt::print("wrote {} for {}::{}\n", options->out, harness.name_space, harness.model);
    }
  });
}

}  // namespace

void add_gen_test(CLI::App& app, Context& context) {
  add(app, context, "gen-test", "write the GoogleTest program that holds an emitted model against PyTorch's values",
      "pycandle gen-test --manifest pycandle_trace/gpt2_manifest.json --model GPT2 --out tests/test_model.cpp",
      emit::cpp::print_test);
}

void add_gen_bench(CLI::App& app, Context& context) {
  add(app, context, "gen-bench", "write the Google Benchmark program of an emitted model",
      "pycandle gen-bench --manifest pycandle_trace/gpt2_manifest.json --model GPT2 --out benches/bench_model.cpp",
      emit::cpp::print_benchmark);
}

}  // namespace pycandle::cli
