// torch.nn in Rust: which of candle_nn's layers, or of the crate's, a module is, and how it is made.
#pragma once

#include <functional>
#include <string>

#include "emit/tree.h"

namespace pycandle::emit::rust {

// A module of torch.nn that Candle has, or the crate.
bool has_layer(const CallTree&, const NnModule&);

struct LayerText {
  std::string type;       // "Linear", "nn::Recurrent"
  std::string function;   // that makes it: "linear_no_bias", "nn::lstm"
  std::vector<std::string> arguments;  // before the VarBuilder
  bool takes_mode = false;             // forward_t(x, false)
};
// text: how an argument of the constructor is written where it is made.
using ArgumentText = std::function<std::string(size_t)>;
LayerText layer_text(const NnModule&, const ArgumentText& text);

}  // namespace pycandle::emit::rust
