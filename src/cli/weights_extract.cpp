// pycandle weights extract: exactly what a program needs, out of a checkpoint.
#include <fmt/format.h>

#include "base/json.h"
#include "cli/terminal.h"
#include "cli/weights.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  fs::path checkpoint, manifest, out, map, ledger, adapter;
  std::string dtype;
  std::optional<uint64_t> shard_bytes;
  std::optional<std::string> section;
  bool strict = false, no_attach = false;
};

void print_ledger(const Ledger& ledger, const Checkpoint& checkpoint) {
  fmt::print("{}\n", counts_text(ledger));
  constexpr size_t kShown = 8;
  std::vector<std::string> unused;
  for (const TensorFate& t : ledger.tensors)
    if (t.fate == Fate::unused) unused.push_back(t.name);
  const size_t count = unused.size();
  if (count > kShown) unused.resize(kShown);
  if (count > 0)
    fmt::print("{} of {} tensors unused: {}{}\n", count, checkpoint.tensors().size(), fmt::join(unused, ", "),
               count > kShown ? ", …" : "");
}

void run(const Options& options, const Context& context) {
  ExtractRequest request{options.checkpoint, options.manifest,  options.out, options.map, options.adapter,
                         options.ledger,     {options.section}, {},          0,           options.strict,
                         !options.no_attach};
  if (!options.dtype.empty()) request.dtype = dtype_from_name(options.dtype);
  if (options.shard_bytes) request.shard_bytes = *options.shard_bytes;
  Progress progress("extracting, MB");
  const ExtractResult result = extract_weights(
      request, [&](std::string_view, size_t done, size_t total) { progress.update(done, total); });
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
  print_ledger(result.ledger, result.checkpoint);
  fmt::print("written to {} ({}, {:.1f} s)\n", fmt::join(files, ", "), human_bytes(static_cast<double>(result.written.bytes)),
             progress.seconds());
  if (result.attached) fmt::print("{} names it now: the recording is complete\n", find_manifest(options.manifest).string());
}

}  // namespace

void add_weights_extract(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(
      app, context, "extract", "write the weights that a recorded program needs, out of a checkpoint",
      "pycandle weights extract --checkpoint model.bin --manifest pycandle_trace --out pycandle_trace/weights.safetensors");
  command.add_option("--checkpoint", options->checkpoint, "a file, an index.json, or the folder of a checkpoint").required();
  command.add_option("--manifest", options->manifest, "the recording, or a checkpoint whose names and shapes are wanted")
      .required();
  command.add_option("--out", options->out, "the safetensors file to write").required();
  command.add_option("--map", options->map, "a file of rules for names that differ: pycandle weights map writes one");
  command.add_option("--lora", options->adapter, "merge this LoRA adapter (peft): its folder, or its safetensors file");
  command.add_option("--dtype", options->dtype, "of floating-point weights; the program's otherwise")
      .one_of({"f32", "f16", "bf16"});
  add_bytes_option(command, "--shard-size", options->shard_bytes,
                   "several files of at most this size, such as 2GB, and an index.json");
  command.add_option("--ledger", options->ledger, "write what became of each tensor and parameter to this JSON file");
  command.add_flag("--strict", options->strict, "tensors that nothing uses are an error");
  command.add_flag("--no-attach", options->no_attach,
                   "leave the manifest as it is; otherwise it names a file that lies in its folder");
  add_section_option(command, options->section);
  command.callback([options, &context] { run(*options, context); });
}

}  // namespace pycandle::cli
