// Prompts that run together, to their ends.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "generate/parts.h"

namespace pycandle {

struct Generation::State {
  std::shared_ptr<const LanguageModel::Parts> model;
  GenerationOptions options;
  std::vector<std::vector<TokenId>> prompts;
  std::vector<TokenId> end_tokens;  // that end a text
  std::unique_ptr<TokenGrammar> grammar;  // of the text; null: any text
  std::vector<Generated> results;
  GenerationCounts counts;
  std::atomic<bool> cancelled{false};
  std::unique_ptr<class Group> group;  // that runs now
  size_t started = 0;                  // prompts

  bool is_end(TokenId token) const;
};

class Group {
 public:
  virtual ~Group() = default;
  // Runs the model once. What came of it; false: all was done before.
  virtual bool advance(std::vector<GeneratedPart>& parts) = 0;
  virtual void cancel(std::vector<GeneratedPart>& parts) = 0;
};

// What a group begins with: sequences that have seen nothing but the encoder's input, and the tokens to run first.
struct Start {
  std::unique_ptr<Sequences> sequences;
  std::vector<Tokens> contexts;  // the decoder's prompts
  std::vector<Tokens> pending;   // of these, what is still to be run
};
// Of prompts [first, first + count). An Error when one of them is too long.
Start start_group(const Generation::State&, size_t first, size_t count);

std::unique_ptr<Group> sampled_group(Generation::State&, size_t first, size_t count);
std::unique_ptr<Group> beam_group(Generation::State&, size_t prompt);

}  // namespace pycandle
