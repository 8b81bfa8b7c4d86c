// What the parts of models are called, in the files that people have: one key for all spellings of a name.
#pragma once

#include <string>

namespace pycandle {

// "model.layers.3.self_attn.q_proj.weight", "layers.3.attention.wq.weight" and "blk.3.attn_q.weight" all give
// "layer.3.attn.q.weight". Names of unknown kinds lose only wrappers such as "module.".
std::string common_name(const std::string& name);
// The rotary rows of q and k stand in pairs in these files (Meta's and GGUF's), in halves in others.
bool has_rope_pairs(const std::string& name);

}  // namespace pycandle
