#include "generate/choosing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"

namespace pycandle {
namespace {

struct Candidate {
  TokenId token;
  float score;
  double weight = 0;  // exp(score - largest)
};

bool by_token(const Candidate& a, const Candidate& b) { return a.token < b.token; }
bool is_less_likely(const Candidate& a, const Candidate& b) { return a.score != b.score ? a.score < b.score : a.token > b.token; }

// What is not forbidden, with scores divided by the temperature.
std::vector<Candidate> tempered(std::span<const float> scores, double temperature) {
  std::vector<Candidate> all;
  all.reserve(scores.size());
  for (size_t i = 0; i < scores.size(); ++i) {
    if (scores[i] != -std::numeric_limits<float>::infinity())
      all.push_back({static_cast<TokenId>(i), scores[i] / static_cast<float>(temperature)});
  }
  return all;
}

void keep_top_k(std::vector<Candidate>& all, int64_t k) {
  if (k <= 0 || static_cast<size_t>(k) >= all.size()) return;
  const auto last = all.begin() + (k - 1);
  std::nth_element(all.begin(), last, all.end(), [](const Candidate& a, const Candidate& b) { return a.score > b.score; });
  const float least = last->score;
  std::erase_if(all, [&](const Candidate& c) { return c.score < least; });
}

double weigh(std::vector<Candidate>& all) {
  float largest = -std::numeric_limits<float>::infinity();
  for (const Candidate& c : all) largest = std::max(largest, c.score);
  double total = 0;
  for (Candidate& c : all) total += c.weight = std::exp(static_cast<double>(c.score) - static_cast<double>(largest));
  return total;
}

// A token stays while those before it have less than top_p: the first one always does.
void keep_top_p(std::vector<Candidate>& all, double top_p) {
  if (top_p >= 1) return;
  const double wanted = top_p * weigh(all);
  std::make_heap(all.begin(), all.end(), is_less_likely);
  double mass = 0;
  auto rest = all.end();
  do {
    std::pop_heap(all.begin(), rest, is_less_likely);
    mass += (--rest)->weight;
  } while (mass < wanted && rest != all.begin());
  all.erase(all.begin(), rest);
}

void keep_min_p(std::vector<Candidate>& all, double min_p) {
  if (min_p <= 0) return;
  weigh(all);  // the largest is 1
  std::erase_if(all, [&](const Candidate& c) { return c.weight < min_p; });
}

std::vector<Candidate> kept(const Choice& choice, std::span<const float> scores) {
  std::vector<Candidate> all = tempered(scores, choice.temperature);
  keep_top_k(all, choice.top_k);
  keep_top_p(all, choice.top_p);
  keep_min_p(all, choice.min_p);
  if (!std::is_sorted(all.begin(), all.end(), by_token)) std::sort(all.begin(), all.end(), by_token);
  return all;
}

TokenId largest(std::span<const float> scores) {
  return static_cast<TokenId>(std::max_element(scores.begin(), scores.end()) - scores.begin());
}

}  // namespace

void check(const Choice& c, size_t vocabulary) {
  const auto refuse = [](const char* what, const char* expected, double found) {
    throw Error(ErrorCode::usage, fmt::format("this {} is not possible", what))
        .expected(expected)
        .found(fmt::format("{}", found));
  };
  if (!(c.temperature > 0) || std::isinf(c.temperature))
    refuse("temperature", "a number above 0; greedy without one", c.temperature);
  if (c.top_k < 0) refuse("top-k", "0 (all) or more", static_cast<double>(c.top_k));
  if (!(c.top_p > 0 && c.top_p <= 1)) refuse("top-p", "a number above 0, at most 1", c.top_p);
  if (!(c.min_p >= 0 && c.min_p <= 1)) refuse("min-p", "a number from 0 to 1", c.min_p);
  if (!(c.repetition_penalty > 0) || std::isinf(c.repetition_penalty))
    refuse("repetition penalty", "a number above 0; 1 is none", c.repetition_penalty);
  if (!std::isfinite(c.presence_penalty)) refuse("presence penalty", "a number", c.presence_penalty);
  if (!std::isfinite(c.frequency_penalty)) refuse("frequency penalty", "a number", c.frequency_penalty);
  for (const auto& [token, bias] : c.logit_bias) {
    if (token >= vocabulary || std::isnan(bias) || bias == std::numeric_limits<double>::infinity())
      throw Error(ErrorCode::usage, "this logit bias is not possible")
          .expected(fmt::format("a token below {} and a number, or -inf", vocabulary))
          .found(fmt::format("{}={}", token, bias));
  }
}

void apply_penalties(const Choice& c, const Seen& seen, std::span<float> scores) {
  for (const auto& [token, bias] : c.logit_bias) scores[token] += static_cast<float>(bias);
  const auto repetition = static_cast<float>(c.repetition_penalty);
  const bool counts = c.frequency_penalty != 0 || c.presence_penalty != 0;
  if (repetition == 1.0F && !counts) return;
  for (const auto& [token, count] : seen.generated()) {
    if (token >= scores.size()) continue;  // of a prompt: models may read more tokens than they write
    float& score = scores[token];
    score = score < 0 ? score * repetition : score / repetition;
    if (count > 0) score -= static_cast<float>(c.frequency_penalty * static_cast<double>(count) + c.presence_penalty);
  }
}

TokenId choose(const Choice& choice, std::span<const float> scores, Random& random) {
  if (!choice.sample) return largest(scores);
  std::vector<Candidate> all = kept(choice, scores);
  const double total = weigh(all), drawn = random.uniform() * total;
  double sum = 0;
  for (const Candidate& c : all) {
    sum += c.weight;
    if (drawn < sum) return c.token;
  }
  return all.empty() ? largest(scores) : all.back().token;  // NaN, or rounding at the end
}

std::vector<std::pair<TokenId, double>> distribution(const Choice& choice, std::span<const float> scores) {
  std::vector<Candidate> all = kept(choice, scores);
  const double total = weigh(all);
  std::vector<std::pair<TokenId, double>> result;
  for (const Candidate& c : all) result.emplace_back(c.token, c.weight / total);
  return result;
}

double log_sum_exp(std::span<const float> scores) {
  const double most = *std::max_element(scores.begin(), scores.end());
  if (std::isinf(most)) return most;
  double sum = 0;
  for (const float score : scores) sum += std::exp(static_cast<double>(score) - most);
  return most + std::log(sum);
}

std::vector<std::pair<TokenId, double>> most_probable(std::span<const float> logits, double log_sum, int64_t count) {
  std::vector<TokenId> order(logits.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<TokenId>(i);
  const auto end = order.begin() + std::min<int64_t>(count, static_cast<int64_t>(order.size()));
  std::partial_sort(order.begin(), end, order.end(),
                    [&](TokenId a, TokenId b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
  std::vector<std::pair<TokenId, double>> result;
  for (auto at = order.begin(); at != end; ++at) result.emplace_back(*at, static_cast<double>(logits[*at]) - log_sum);
  return result;
}

}  // namespace pycandle
