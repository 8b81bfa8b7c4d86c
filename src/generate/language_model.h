// A LanguageModel of a model that is loaded already.
#pragma once

#include "pycandle/generation.h"
#include "runtime/model.h"

namespace pycandle {

// What a language model has beside its program.
struct LanguageParts {
  std::optional<Tokenizer> tokenizer = {};
  std::string generation_config = {};  // the text of generation_config.json; empty: what the recorded class says of its tokens
  std::string cache = "f32";           // what rows are kept in, or "bf16", "f16"
};

// load: the backend and its options, as the model was loaded with them.
LanguageModel language_model(Model, LanguageParts);

}  // namespace pycandle
