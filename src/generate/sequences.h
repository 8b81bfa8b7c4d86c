// Where logits come from: sequences of tokens that grow, with a cache or without.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/decoder.h"
#include "runtime/model.h"

namespace pycandle {

// Which inputs and outputs of a decode step are what.
struct TokenRoles {
  std::string tokens;                       // of the step
  std::optional<std::string> encoder_tokens;  // of the model's once-run part
  std::vector<std::string> others;          // inputs of the once-run part that nobody can guess
  std::string logits;
  size_t logits_index = 0;                  // among the step's outputs
  int64_t vocabulary = 0;
  bool has_encoder = false;

  static TokenRoles of(const DecodeStep&);  // a gap Error when there are no tokens or no logits
};

// What a model reads for whole sequences of tokens [batch, tokens]: these, masks of ones, and types of 0.
Model::Tensors token_inputs(const Program&, const Array& tokens);

using Tokens = std::vector<int64_t>;
enum class Wanted { last, all };

class Sequences {
 public:
  virtual ~Sequences() = default;
  virtual int64_t count() const = 0;
  virtual int64_t length(int64_t sequence) const = 0;  // tokens so far
  virtual int64_t room(int64_t sequence) const = 0;    // and how many more it takes
  // Runs added[b] behind sequence b. Logits, f32 [count, n, vocabulary]: of the last new token of each (n = 1), or of all (n is
  // the longest of added; the rest of a row has no meaning). Valid until the next call.
  virtual const Array& extend(const std::vector<Tokens>& added, Wanted) = 0;
  virtual void select(const std::vector<int64_t>& sequences) = 0;  // copies of these, in this order
  virtual void truncate(int64_t sequence, int64_t length) = 0;
  virtual const Cache* cache() { return nullptr; }  // none where there is none
};

// inputs: the encoder's, or none. known: tokens of the one sequence that are in `cache` already.
std::unique_ptr<Sequences> cached_sequences(const Decoder&, const TokenRoles&, Cache);
// Without a cache: every extend() runs whole sequences.
std::unique_ptr<Sequences> whole_sequences(const Model&, const TokenRoles&, int64_t count, std::optional<int64_t> longest,
                                           const Decoder::Tensors& inputs);

}  // namespace pycandle
