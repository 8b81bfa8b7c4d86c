#include "generate/draft.h"

#include <algorithm>

#include "generate/parts.h"

namespace pycandle {
namespace {

class PromptLookup final : public Drafter {
 public:
  Tokens guess(const Tokens& context, int64_t most) override {
    for (ptrdiff_t size = std::min<ptrdiff_t>(kLongest, std::ssize(context) - 1); size > 0; --size) {
      // The last place before the end with the same tokens.
      const auto pattern = context.end() - size;
      const auto found = std::find_end(context.begin(), context.end() - 1, pattern, context.end());
      if (found == context.end() - 1) continue;
      const auto from = found + size;
      return {from, from + std::min<ptrdiff_t>(most, context.end() - from)};
    }
    return {};
  }

 private:
  static constexpr ptrdiff_t kLongest = 3;
};

class ModelDrafter final : public Drafter {
 public:
  ModelDrafter(const LanguageModel::Parts& parts, int64_t capacity)
      : vocabulary_(parts.roles.vocabulary),
        sequences_(cached_sequences(parts.decoder, parts.roles, parts.decoder.new_cache(1, capacity))) {}

  Tokens guess(const Tokens& context, int64_t most) override {
    const auto same = std::mismatch(fed_.begin(), fed_.end(), context.begin(), context.end()).first - fed_.begin();
    const auto known = std::min<ptrdiff_t>(same, std::ssize(context) - 1);
    if (known < sequences_->length(0)) sequences_->truncate(0, known);
    fed_.resize(static_cast<size_t>(known));
    Tokens added(context.begin() + known, context.end()), guessed;
    const auto fits = [&](int64_t token) { return token < vocabulary_; };
    while (std::ssize(guessed) < most && std::ssize(added) <= sequences_->room(0) &&
           std::all_of(added.begin(), added.end(), fits)) {
      const float* logits = sequences_->extend({added}, Wanted::last).as<float>();
      fed_.insert(fed_.end(), added.begin(), added.end());
      guessed.push_back(std::max_element(logits, logits + vocabulary_) - logits);
      added = {guessed.back()};
    }
    return guessed;
  }

 private:
  int64_t vocabulary_;
  std::unique_ptr<Sequences> sequences_;
  Tokens fed_;
};

}  // namespace

std::unique_ptr<Drafter> prompt_lookup() { return std::make_unique<PromptLookup>(); }

std::unique_ptr<Drafter> model_drafter(const LanguageModel::Parts& parts, int64_t capacity) {
  const std::optional<int64_t> longest = parts.decoder.decode_step().longest;
  return std::make_unique<ModelDrafter>(parts, longest ? std::min(*longest, capacity) : capacity);
}

}  // namespace pycandle
