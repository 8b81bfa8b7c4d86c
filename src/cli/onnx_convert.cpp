// pycandle onnx-convert: an ONNX file as a manifest and weights.
#include "cli/onnx_convert.h"

#include <fmt/format.h>

#include "base/json.h"
#include "cli/terminal.h"
#include "import/onnx/convert.h"
#include "ops/core/catalogue.h"

namespace pycandle::cli {
namespace {

struct Options {
  std::filesystem::path model, folder = "pycandle_trace";
  std::string name;
};

void run(const Options& options, const Context& context) {
  const std::string name = options.name.empty() ? options.model.stem().string() : options.name;
  if (name.empty() || name.find('/') != std::string::npos)
    throw Error(ErrorCode::usage, "a model's name has no slash").found(name).hint("--name my_model");
  const onnx::Converted made = onnx::convert(options.model, options.folder, name, catalogue());
  if (context.json) {
    fmt::print("{}\n", Json{{"manifest", made.manifest.string()},
                            {"weights", made.weights.string()},
                            {"nodes", made.nodes},
                            {"parameters", made.parameters},
                            {"bytes", made.bytes},
                            {"values", made.values}}
                           .dump(2));
    return;
  }
  fmt::print("{}: {} nodes\n{}: {} parameters ({})\n", made.manifest.string(), made.nodes, made.weights.string(), made.parameters,
             human_bytes(static_cast<double>(made.bytes)));
}

}  // namespace

void add_onnx_convert(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "onnx-convert", "write an ONNX file as a manifest and weights, as recording does",
                                "pycandle onnx-convert --onnx model.onnx --name my_model");
  command.add_option("--onnx", options->model, "the file; data beside it is read too").required();
  command.add_option("--name", options->name, "of the model; the file's name otherwise");
  command.add_option("--out", options->folder, "the folder to write into (pycandle_trace)");
  command.callback([options, &context] { run(*options, context); });
}

}  // namespace pycandle::cli
