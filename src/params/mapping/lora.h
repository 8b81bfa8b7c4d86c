// LoRA adapters as peft writes them: two thin matrices beside a weight.
#pragma once

#include <filesystem>

#include "params/mapping/ledger.h"

namespace pycandle {

// The rules with the adapter merged into the weights that it changes, or kept beside them where the program has its modules
// (a recorded peft model); its tensors are added to the checkpoint. `adapter` is its folder, or adapter_model.safetensors with
// adapter_config.json beside it. What cannot be merged is bad_input.
Rules with_adapter(const Rules&, const std::vector<Target>&, Checkpoint&, const std::filesystem::path& adapter);

}  // namespace pycandle
