// pycandle weights extract: exactly what a program needs, out of a checkpoint.
#include <fmt/format.h>

#include "base/json.h"
#include "cli/terminal.h"
#include "cli/weights.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  CheckpointRequest from;
  fs::path manifest, out, ledger;
  std::string dtype;
  std::optional<uint64_t> shard_bytes;
  bool no_attach = false;
};

void run(const Options& options, const Context& context) {
  ExtractRequest request;
  request.from = options.from;
  request.needed = options.manifest;
  request.out = options.out;
  request.ledger = options.ledger;
  request.attach = !options.no_attach;
  if (!options.dtype.empty()) request.dtype = dtype_from_name(options.dtype);
  if (options.shard_bytes) request.shard_bytes = *options.shard_bytes;
  Progress progress("extracting, MB");
  const ExtractResult result = extract_weights(
      request, [&](std::string_view, size_t done, size_t total) { progress.update(done, total); });
  progress.finish();
  std::vector<std::string> files;
  for (const fs::path& file : result.written.files) files.push_back(file.string());
  if (context.json) {
    fmt::print("{}\n", Json{{"files", files},
                            {"bytes", result.written.bytes},
                            {"attached", result.attached},
                            {"ledger", Json::parse(to_json(result.ledger))}}
                           .dump(2));
    return;
  }
  if (const std::string line = left_out_text(result.checkpoint); !line.empty()) fmt::print("{}\n", line);
  fmt::print("{}", ledger_text(result.ledger));
  fmt::print("written to {} ({}, {:.1f} s)\n", fmt::join(files, ", "), human_bytes(static_cast<double>(result.written.bytes)),
             progress.seconds());
  if (result.attached) fmt::print("{} names it now: the recording is complete\n", find_manifest(options.manifest).string());
}

}  // namespace

void add_weights_extract(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(
      app, context, "extract", "write the weights that a recorded program needs, out of a checkpoint",
      "pycandle weights extract --checkpoint model.bin --manifest pycandle_trace --out weights.safetensors");
  add_checkpoint_options(command, options->from);
  command.get_option("--checkpoint").required();
  command.add_option("--manifest", options->manifest, "the recording, or a checkpoint whose names and shapes are wanted")
      .required();
  command.add_option("--out", options->out, "the safetensors file to write").required();
  command.add_option("--dtype", options->dtype, "of floating-point weights; the program's otherwise")
      .one_of({"f32", "f16", "bf16"});
  add_bytes_option(command, "--shard-size", options->shard_bytes,
                   "several files of at most this size, such as 2GB, and an index.json");
  command.add_option("--ledger", options->ledger, "write what became of each tensor and parameter to this JSON file");
  command.add_flag("--no-attach", options->no_attach,
                   "leave the manifest as it is; otherwise it names a file that lies in its folder");
  command.callback([options, &context] { run(*options, context); });
}

}  // namespace pycandle::cli
