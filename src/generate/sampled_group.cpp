// Greedy text and samples: each step chooses a token for every sequence, and with guesses several.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/error.h"
#include "generate/choosing.h"
#include "generate/draft.h"
#include "generate/group.h"
#include "generate/streamed_text.h"

namespace pycandle {
namespace {

struct Sequence {
  size_t result;   // its place in Generation::results()
  Tokens context;  // prompt and text; the last token has not been run
  Seen seen;
  Random random;
  StreamedText text;
  std::unique_ptr<Drafter> drafter;
  int64_t most;               // tokens of text
  Reader::State grammar = 0;  // where the text stands in it
  bool done = false;
};

class SampledGroup final : public Group {
 public:
  SampledGroup(Generation::State& state, size_t first, size_t count) : state_(state), options_(state.options) {
    Start start = start_group(state, first, count);
    sequences_ = std::move(start.sequences);
    pending_ = std::move(start.pending);
    for (size_t p = 0; p < count; ++p) {
      for (int64_t s = 0; s < options_.samples; ++s) {
        texts_.push_back(new_sequence((first + p) * static_cast<size_t>(options_.samples) + static_cast<size_t>(s),
                                      start.contexts[p], static_cast<uint64_t>(s)));
        rows_.push_back(p);
      }
    }
  }

  bool advance(std::vector<GeneratedPart>& parts) override {
    if (!is_alive()) return false;
    const bool drafts = std::any_of(pending_.begin(), pending_.end(), [](const Tokens& t) { return t.size() > 1; }) && !is_first_;
    const Array& logits = sequences_->extend(pending_, drafts ? Wanted::all : Wanted::last);
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (!texts_[i].done) take(texts_[i], rows_[i], logits, parts);
    }
    prepare();
    is_first_ = false;
    return true;
  }

  void cancel(std::vector<GeneratedPart>& parts) override {
    for (Sequence& text : texts_) {
      if (!text.done) parts.push_back(finish(text, Finish::cancelled));
    }
  }

 private:
  Sequence new_sequence(size_t result, const Tokens& context, uint64_t stream) const {
    const std::vector<TokenId> seen(context.begin(), context.end());
    Sequence made{result, context, Seen(seen), Random(options_.choice.seed, stream),
                  StreamedText(state_.model->tokenizer ? &*state_.model->tokenizer : nullptr, options_.stop), nullptr,
                  // The last token is not run, so it needs no room.
                  std::min(options_.max_tokens, sequences_->length(0) + sequences_->room(0) - std::ssize(context) + 1)};
    if (state_.grammar && state_.grammar->reader().shortest_end(made.grammar) > made.most)
      throw Error(ErrorCode::usage, "the schema's shortest text has more tokens than there may be")
          .expected(fmt::format("--max-tokens of {} or more", state_.grammar->reader().shortest_end(made.grammar)))
          .found(fmt::format("{}", made.most));
    if (options_.draft)
      made.drafter = model_drafter(options_.draft->parts(), std::ssize(context) + made.most);
    else if (options_.prompt_lookup)
      made.drafter = prompt_lookup();
    return made;
  }

  bool is_alive() const {
    return std::any_of(texts_.begin(), texts_.end(), [](const Sequence& text) { return !text.done; });
  }

  // Tokens that follow from the logits of a row, as long as they are those that were guessed.
  void take(Sequence& text, size_t row, const Array& logits, std::vector<GeneratedPart>& parts) {
    const Tokens& run = pending_[row];
    const int64_t places = logits.shape()[1], wide = logits.shape()[2];
    const float* at = logits.as<float>() + static_cast<int64_t>(row) * places * wide;
    const size_t tested = is_first_ ? 1 : run.size();
    state_.counts.drafted += tested - 1;
    for (size_t i = 0; i < tested && !text.done; ++i) {
      if (i > 0 && run[i] != text.context.back()) break;  // the guess was wrong
      state_.counts.accepted += i > 0 ? 1 : 0;
      parts.push_back(choose_next(text, {at + static_cast<int64_t>(i) * wide, static_cast<size_t>(wide)}));
    }
  }

  GeneratedPart choose_next(Sequence& text, std::span<const float> logits) {
    scores_.assign(logits.begin(), logits.end());
    apply_penalties(options_.choice, text.seen, scores_);
    Generated& result = state_.results[text.result];
    if (state_.grammar) state_.grammar->forbid(text.grammar, text.most - std::ssize(result.tokens), state_.end_tokens, scores_);
    const TokenId token = choose(options_.choice, scores_, text.random);
    if (std::isnan(scores_[token]))
      throw Error(ErrorCode::bad_input, "the model's logits are not numbers").found(state_.model->model.program().name);
    if (std::isinf(scores_[token]))
      throw Error(ErrorCode::usage, "no token is left to choose").hint("a logit bias of -inf forbids too much");
    if (state_.is_end(token)) return finish(text, Finish::stop);
    GeneratedToken chosen{token};
    if (options_.log_probabilities || options_.alternatives > 0) {
      const double log_sum = log_sum_exp(logits);
      chosen.log_probability = static_cast<double>(logits[token]) - log_sum;
      chosen.alternatives = most_probable(logits, log_sum, options_.alternatives);
    }
    result.tokens.push_back(chosen);
    ++state_.counts.tokens;
    text.context.push_back(token);
    text.seen.add(token);
    if (state_.grammar) text.grammar = state_.grammar->after(text.grammar, token);
    GeneratedPart part{text.result, text.text.add(token), std::move(chosen)};
    result.text += part.text;
    const bool is_whole = state_.grammar && state_.grammar->reader().must_end(text.grammar);
    if (text.text.is_stopped() || is_whole || std::ssize(result.tokens) >= text.most)
      part.text += finish(text, text.text.is_stopped() || is_whole ? Finish::stop : Finish::length).text;
    return part;
  }

  GeneratedPart finish(Sequence& text, Finish why) {
    text.done = true;
    Generated& result = state_.results[text.result];
    std::string rest = text.text.finish();
    result.finish = text.text.is_stopped() ? Finish::stop : why;  // a stop text may end in what was held back
    result.text += rest;
    return {text.result, std::move(rest)};
  }

  // What the next step runs: rows of what is alive, each with its last token and guesses.
  void prepare() {
    const auto alive = static_cast<size_t>(
        std::count_if(texts_.begin(), texts_.end(), [](const Sequence& t) { return !t.done; }));
    if (alive == 0) {
      keep_prefix();
      return;
    }
    forget_guesses();
    if (is_first_ ? texts_.size() != pending_.size() || alive < texts_.size() : alive * 2 <= texts_.size()) compact();
    std::vector<Tokens> next(texts_.size(), Tokens{0});  // one that is done runs along, and nobody looks
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (!texts_[i].done) next[i] = {texts_[i].context.back()};
    }
    pending_ = std::move(next);
    add_guesses();
  }

  void forget_guesses() {
    for (size_t i = 0; i < texts_.size(); ++i) {
      const auto row = static_cast<int64_t>(rows_[i]);
      const int64_t length = texts_[i].done ? 0 : std::ssize(texts_[i].context) - 1;
      if (sequences_->length(row) > length && !is_first_) sequences_->truncate(row, length);
    }
  }

  void compact() {
    std::vector<int64_t> chosen;
    std::vector<Sequence> left;
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (texts_[i].done) continue;
      chosen.push_back(static_cast<int64_t>(rows_[i]));
      left.push_back(std::move(texts_[i]));
    }
    texts_ = std::move(left);
    sequences_->select(chosen);
    rows_.clear();
    for (size_t i = 0; i < texts_.size(); ++i) rows_.push_back(i);
  }

  void add_guesses() {
    int64_t spare = options_.draft_tokens + 1;
    for (size_t i = 0; i < texts_.size(); ++i) spare = std::min(spare, sequences_->room(static_cast<int64_t>(i)));
    for (size_t i = 0; i < texts_.size(); ++i) {
      Sequence& text = texts_[i];
      if (text.done || !text.drafter) continue;
      const int64_t wanted = text.most - std::ssize(state_.results[text.result].tokens) - 1;
      const Tokens guessed = text.drafter->guess(text.context, std::min(spare - 1, wanted));
      for (const int64_t token : guessed) {
        if (token >= state_.model->roles.vocabulary) break;
        pending_[i].push_back(token);
      }
    }
  }

  void keep_prefix() {
    if (!options_.keep_prefix) return;
    const Cache* cache = sequences_->cache();
    if (!cache || cache->batch() != 1) return;
    const Tokens& context = texts_[0].context;
    const int64_t length = std::min<int64_t>(cache->lengths()[0], std::ssize(context) - 1);  // behind it may be a wrong guess
    sequences_->truncate(0, length);
    state_.model->prefixes->keep(*cache, 0, Tokens(context.begin(), context.begin() + length));
  }

  Generation::State& state_;
  const GenerationOptions& options_;
  std::unique_ptr<Sequences> sequences_;
  std::vector<Sequence> texts_;
  std::vector<size_t> rows_;    // of each text, in sequences_ and pending_
  std::vector<Tokens> pending_;  // of each row: what the next step runs
  std::vector<float> scores_;
  bool is_first_ = true;
};

}  // namespace

std::unique_ptr<Group> sampled_group(Generation::State& state, size_t first, size_t count) {
  return std::make_unique<SampledGroup>(state, first, count);
}

}  // namespace pycandle
