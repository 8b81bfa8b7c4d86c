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

}  // namespace pycandle::cli
