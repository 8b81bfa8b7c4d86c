// pycandle weights: looks into checkpoints, and takes out of them what a program needs.
#include "cli/weights.h"

#include <fmt/format.h>

namespace pycandle::cli {

void add_weights(Command& app, Context& context) {
  Command weights = app.add_subcommand("weights", "look into a checkpoint, rename its tensors, extract what a program needs");
  weights.footer(
      "Example:\n  pycandle weights extract --checkpoint model.bin --manifest pycandle_trace --out weights.safetensors");
  weights.needs_subcommand();
  add_weights_show(weights, context);
  add_weights_extract(weights, context);
  add_weights_map(weights, context);
  add_weights_diff(weights, context);
}

void add_checkpoint_options(Command& command, CheckpointRequest& request) {
  command.add_option("--checkpoint", request.checkpoint, "a file, an index.json, or the folder of a checkpoint");
  command.add_option("--map", request.rules, "a file of rules for names that differ: pycandle weights map writes one");
  command.add_option("--lora", request.adapter, "merge this LoRA adapter (peft): its folder, or its safetensors file");
  command.add_flag("--strict", request.strict, "tensors that nothing uses are an error");
  add_section_option(command, request.reading.section);
}

void add_section_option(Command& command, std::optional<std::string>& section) {
  command.add_option_function(
      "--section", [&section](const std::vector<std::string>& words) { section = words.back() == "all" ? "" : words.back(); },
      "of a training checkpoint: where its weights are, such as model or ema.module; all: every tensor of it");
}

std::string left_out_text(const Checkpoint& checkpoint) {
  if (checkpoint.left_out().empty()) return {};
  std::vector<std::string> parts;
  for (const LeftOut& other : checkpoint.left_out()) parts.push_back(fmt::format("{} ({} tensors)", other.section, other.count));
  return fmt::format("read: {}; left out: {}", checkpoint.section(), fmt::join(parts, ", "));
}

std::string counts_text(const Ledger& ledger) {
  std::vector<std::string> parts;
  for (int i = 0; i < kFateCount; ++i) {
    const auto fate = static_cast<Fate>(i);
    if (const size_t n = ledger.count(fate); n > 0)
      parts.push_back(fmt::format("{} {}", n, fate == Fate::unused ? "not needed" : name_of(fate)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string ledger_text(const Ledger& ledger) {
  constexpr size_t kShown = 8;
  std::vector<std::string> unused;
  for (const TensorFate& t : ledger.tensors)
    if (t.fate == Fate::unused) unused.push_back(t.name);
  std::string text = counts_text(ledger) + "\n";
  const size_t count = unused.size();
  if (count == 0) return text;
  if (count > kShown) unused.resize(kShown);
  return text + fmt::format("{} of {} tensors unused: {}{}\n", count, ledger.tensors.size(), fmt::join(unused, ", "),
                            count > kShown ? ", …" : "");
}

}  // namespace pycandle::cli
