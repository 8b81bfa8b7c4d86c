// From logits to a token: the processors of transformers in their order, then the largest or a draw.   docs/generation.md
#pragma once

#include <span>
#include <unordered_map>
#include <vector>

#include "generate/random.h"
#include "pycandle/generation.h"

namespace pycandle {

// The tokens of a prompt and of what was generated behind it.
class Seen {
 public:
  explicit Seen(const std::vector<TokenId>& prompt) {
    for (const TokenId token : prompt) counts_.emplace(token, 0);
  }
  void add(TokenId token) { ++counts_[token]; }
  const std::unordered_map<TokenId, int64_t>& generated() const { return counts_; }  // how often; 0: in the prompt alone

 private:
  std::unordered_map<TokenId, int64_t> counts_;
};

void check(const Choice&, size_t vocabulary);  // a usage Error for what cannot be

// Bias and penalties, in place. What a constraint forbids is -inf afterwards, so it comes next.
void apply_penalties(const Choice&, const Seen&, std::span<float> scores);
// The largest, or a draw from what temperature, top-k, top-p and min-p leave.
TokenId choose(const Choice&, std::span<const float> scores, Random&);
// What sampling draws from: tokens in the order of their ids, with probabilities.
std::vector<std::pair<TokenId, double>> distribution(const Choice&, std::span<const float> scores);

double log_sum_exp(std::span<const float> scores);
// The largest ones first.
std::vector<std::pair<TokenId, double>> most_probable(std::span<const float> logits, double log_sum, int64_t count);

}  // namespace pycandle
