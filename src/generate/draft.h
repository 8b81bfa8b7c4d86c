// Guesses of the next tokens, for speculation. Wrong ones cost time, and change nothing.
#pragma once

#include <memory>

#include "generate/sequences.h"
#include "pycandle/generation.h"

namespace pycandle {

class Drafter {
 public:
  virtual ~Drafter() = default;
  virtual Tokens guess(const Tokens& context, int64_t most) = 0;  // up to so many tokens behind the context
};

// What followed the last tokens when they came before.
std::unique_ptr<Drafter> prompt_lookup();
// What a smaller model would write. It must outlive the drafter.
std::unique_ptr<Drafter> model_drafter(const LanguageModel::Parts&, int64_t capacity);

}  // namespace pycandle
