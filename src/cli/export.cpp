// pycandle export: a model as an ONNX file, run in ONNX Runtime to see that it computes the same.
#include "cli/export.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "ops/core/catalogue.h"

namespace pycandle::cli {
namespace {

struct Options {
  RunOptions run;
  std::filesystem::path onnx;
  std::string python;
  int opset = 0;
  bool unchecked = false, external = false;
};

constexpr uint64_t kMostInside = 1'900'000'000;

Json to_json(const ExportCheck& check) {
  Json json = {{"runner", check.runner}, {"passed", check.passed()}, {"outputs", Json::array()}};
  if (check.runner.empty()) json["why_not"] = check.why_not;
  for (const CheckedOutput& o : check.outputs)
    json["outputs"].push_back({{"name", o.name},
                               {"sizes", o.sizes},
                               {"error", o.error},
                               {"passed", o.passed},
                               {"within_rounding", o.within_rounding},
                               {"why", o.why}});
  return json;
}

void print_check(const ExportCheck& check) {
  if (check.runner.empty()) {
    fmt::print("not checked: {}\n", check.why_not);
    return;
  }
  for (const CheckedOutput& o : check.outputs) {
    const char* verdict = !o.passed ? "WRONG" : o.within_rounding ? "within rounding" : "beyond rounding, within 0.1 %";
    fmt::print("  {:<24} {:<12} {:<16} {:.1e}{}{}\n", o.name, o.sizes.empty() ? "as recorded" : o.sizes, verdict, o.error,
               o.why.empty() ? "" : "  ", o.why);
  }
  fmt::print("{}: {}\n", check.runner, check.passed() ? "computes the same" : "computes something else");
}

void run(Options& options, Context& context) {
  const Model model = load_for(options.run);
  const OnnxPython python = options.unchecked ? OnnxPython{"", "--no-check", 0} : find_onnx_python(options.python);
  const int newest = python.newest_opset == 0 ? emit::onnx::kNewestOpset
                                              : std::min(python.newest_opset, emit::onnx::kNewestOpset);
  const emit::onnx::Exported made = emit::onnx::export_program(model.program(), *model.parameters(), catalogue(),
                                                               options.opset == 0 ? newest : options.opset);
  const emit::onnx::Written written = write(made.model, options.onnx, options.external ? 0 : kMostInside);
  if (!context.json) {
    fmt::print("{}: opset {}, {} nodes, {} parameters ({})\n", options.onnx.string(), made.model.opset, made.nodes,
               made.parameters, human_bytes(static_cast<double>(written.bytes)));
    if (!written.data.empty()) fmt::print("{}: its tensors, to be kept beside it\n", written.data.string());
  }
  const ExportCheck check = check_export(model, made.interface, options.onnx, python);
  if (context.json) {
    fmt::print("{}\n", Json{{"onnx", options.onnx.string()},
                            {"data", written.data.string()},
                            {"opset", made.model.opset},
                            {"nodes", made.nodes},
                            {"parameters", made.parameters},
                            {"bytes", written.bytes},
                            {"check", to_json(check)}}
                           .dump(2));
  } else {
    print_check(check);
  }
  context.status = check.passed() ? 0 : 1;
}

}  // namespace

void add_export(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "export", "write a model as an ONNX file, and run it in ONNX Runtime to compare",
                                "pycandle export pycandle_trace --onnx model.onnx");
  command.add_option("model", options->run.model, "a manifest, the folder of one, or a bundle").required();
  command.add_option("--onnx", options->onnx, "the file to write").required();
  command
      .add_option("--opset", options->opset,
                  "the version of ONNX's operators; the newest that the installed ONNX Runtime runs otherwise")
      .between(emit::onnx::kOldestOpset, emit::onnx::kNewestOpset);
  command.add_flag("--external", options->external, "tensors go into <file>.data beside it, as they do above 1.9 GB");
  command.add_flag("--no-check", options->unchecked, "do not run the file in ONNX Runtime");
  command.add_option("--python", options->python, "the Python with onnxruntime that checks");
  add_weights_options(command, options->run);
  command.callback([options, &context] { run(*options, context); });
}

}  // namespace pycandle::cli
