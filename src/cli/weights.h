// What the commands of `pycandle weights` share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "params/weights.h"

namespace pycandle::cli {

void add_weights_show(Command&, Context&);
void add_weights_extract(Command&, Context&);
void add_weights_map(Command&, Context&);
void add_weights_diff(Command&, Context&);

// --checkpoint, --map, --lora, --section, --strict.
void add_checkpoint_options(Command&, CheckpointRequest&);
// --section of a training checkpoint.
void add_section_option(Command&, std::optional<std::string>&);

// What a training checkpoint holds beside its weights, as a line; empty when nothing.
std::string left_out_text(const Checkpoint&);
// The fates in words: "148 used as is, 2 missing".
std::string counts_text(const Ledger&);
// The same, and the tensors that nothing uses, as lines.
std::string ledger_text(const Ledger&);

}  // namespace pycandle::cli
