// What a LanguageModel is made of.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "generate/constraint.h"
#include "generate/language_model.h"
#include "generate/sequences.h"
#include "pycandle/generation.h"
#include "runtime/model.h"
#include "runtime/prefix_store.h"

namespace pycandle {

struct LanguageModel::Parts {
  Parts(Model, LanguageParts&&);

  Model model;
  std::string cache;                            // the dtype of its rows
  Decoder decoder;
  TokenRoles roles;
  std::optional<Tokenizer> tokenizer;
  std::vector<TokenId> end_tokens;
  std::optional<TokenId> start_token;           // of an encoder-decoder model
  std::unique_ptr<PrefixStore> prefixes;        // its own lock

  std::shared_ptr<const TokenTexts> token_texts() const;  // made when first asked for
  // The decode step is the forward pass: proven when first asked for. A verdict Error when it is not.
  void require_proof() const;

 private:
  mutable std::mutex mutex_;
  mutable std::shared_ptr<const TokenTexts> token_texts_;
  mutable std::once_flag proven_;
};

}  // namespace pycandle
