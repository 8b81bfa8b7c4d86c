// Beam search as transformers does it (early_stopping=False): the best continuations of all beams go on, those that end compete
// by their score.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "generate/choosing.h"
#include "generate/group.h"

namespace pycandle {
namespace {

struct Beam {
  std::vector<GeneratedToken> tokens;
  double score = 0;  // the sum of log-probabilities; of a beam that ended: by length
  Seen seen;
  Finish finish = Finish::running;
};

struct Candidate {
  size_t beam;
  TokenId token;
  double score;
};

class BeamGroup final : public Group {
 public:
  BeamGroup(Generation::State& state, size_t prompt) : state_(state), options_(state.options), prompt_(prompt) {
    Start start = start_group(state, prompt, 1);
    sequences_ = std::move(start.sequences);
    pending_ = std::move(start.pending);
    const Tokens& context = start.contexts[0];
    most_ = std::min(options_.max_tokens, sequences_->length(0) + sequences_->room(0) - std::ssize(context) + 1);
    running_.push_back({{}, 0, Seen({context.begin(), context.end()})});
  }

  bool advance(std::vector<GeneratedPart>& parts) override {
    if (is_done_) return false;
    const std::vector<Candidate> best = continuations(sequences_->extend(pending_, Wanted::last));
    const bool goes_on = keep(best);
    ++length_;
    ++state_.counts.tokens;
    can_improve_ = can_improve_ &&
                   (finished_.size() < beams() || running_.empty() || by_length(running_[0].score) > finished_.back().score);
    if (!goes_on || !can_improve_) give(parts);
    return true;
  }

  void cancel(std::vector<GeneratedPart>& parts) override {
    for (Beam& beam : running_) {
      beam.finish = Finish::cancelled;
      beam.score = by_length(beam.score);
      finished_.push_back(std::move(beam));
    }
    give(parts);
  }

 private:
  size_t beams() const { return static_cast<size_t>(options_.beams); }
  double by_length(double score) const {
    return score / std::pow(static_cast<double>(std::max<int64_t>(1, length_)), options_.length_penalty);
  }

  // The best of all beams, more than there are beams, since some of them end.
  std::vector<Candidate> continuations(const Array& logits) {
    const auto wide = static_cast<size_t>(logits.shape()[2]);
    std::vector<Candidate> all;
    sums_.clear();
    logits_ = logits;
    for (size_t b = 0; b < running_.size(); ++b) {
      const std::span<const float> row = row_of(b);
      sums_.push_back(log_sum_exp(row));
      if (std::isnan(sums_.back()))
        throw Error(ErrorCode::bad_input, "the model's logits are not numbers").found(state_.model->model.program().name);
      scores_.resize(wide);
      for (size_t i = 0; i < wide; ++i) scores_[i] = static_cast<float>(static_cast<double>(row[i]) - sums_[b]);
      apply_penalties(options_.choice, running_[b].seen, scores_);
      for (size_t i = 0; i < wide; ++i)
        all.push_back({b, static_cast<TokenId>(i), running_[b].score + static_cast<double>(scores_[i])});
    }
    const size_t wanted = std::min(all.size(), std::max<size_t>(2, 1 + state_.end_tokens.size()) * beams());
    std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(wanted), all.end(),
                      [](const Candidate& a, const Candidate& b) {
                        if (a.score != b.score) return a.score > b.score;
                        return a.beam != b.beam ? a.beam < b.beam : a.token < b.token;
                      });
    all.resize(wanted);
    return all;
  }

  std::span<const float> row_of(size_t beam) const {
    const auto wide = static_cast<size_t>(logits_.shape()[2]);
    return {logits_.as<float>() + beam * wide, wide};
  }

  Beam extended(const Candidate& c) const {
    Beam beam = running_[c.beam];
    GeneratedToken token{c.token, static_cast<double>(row_of(c.beam)[c.token]) - sums_[c.beam]};
    if (options_.alternatives > 0) token.alternatives = most_probable(row_of(c.beam), sums_[c.beam], options_.alternatives);
    beam.tokens.push_back(std::move(token));
    beam.seen.add(c.token);
    beam.score = c.score;
    beam.finish = state_.is_end(c.token)             ? Finish::stop
                  : has_stop_text(beam)              ? Finish::stop
                  : std::ssize(beam.tokens) >= most_ ? Finish::length
                                                     : Finish::running;
    return beam;
  }

  // Of candidates that end, only those within the first `beams` count. False: all of them end.
  bool keep(const std::vector<Candidate>& best) {
    std::vector<Beam> next;
    std::vector<int64_t> rows;
    const double by = std::pow(static_cast<double>(length_ + 1), options_.length_penalty);
    for (size_t i = 0; i < best.size() && (i < beams() || next.size() < beams()); ++i) {
      Beam beam = extended(best[i]);
      if (beam.finish == Finish::running) {
        if (next.size() == beams()) continue;
        rows.push_back(static_cast<int64_t>(best[i].beam));
        next.push_back(std::move(beam));
      } else if (i < beams() && can_improve_) {
        beam.score /= by;
        finished_.push_back(std::move(beam));
      }
    }
    std::stable_sort(finished_.begin(), finished_.end(), [](const Beam& a, const Beam& b) { return a.score > b.score; });
    if (finished_.size() > beams()) finished_.erase(finished_.begin() + static_cast<ptrdiff_t>(beams()), finished_.end());
    running_ = std::move(next);
    if (running_.empty()) return false;
    sequences_->select(rows);
    pending_.clear();
    for (const Beam& beam : running_) pending_.push_back({beam.tokens.back().id});
    return true;
  }

  std::string text_of(const Beam& beam) const {
    if (!state_.model->tokenizer) return {};
    std::vector<TokenId> ids;
    for (const GeneratedToken& token : beam.tokens) ids.push_back(token.id);
    return state_.model->tokenizer->decode(ids);
  }

  bool has_stop_text(const Beam& beam) const {
    if (options_.stop.empty()) return false;
    const std::string text = text_of(beam);
    return std::any_of(options_.stop.begin(), options_.stop.end(),
                       [&](const std::string& stop) { return text.find(stop) != std::string::npos; });
  }

  void give(std::vector<GeneratedPart>& parts) {
    is_done_ = true;
    std::stable_sort(finished_.begin(), finished_.end(), [](const Beam& a, const Beam& b) { return a.score > b.score; });
    for (size_t s = 0; s < static_cast<size_t>(options_.samples) && s < finished_.size(); ++s) {
      Beam& beam = finished_[s];
      Generated& result = state_.results[prompt_ * static_cast<size_t>(options_.samples) + s];
      if (!beam.tokens.empty() && state_.is_end(beam.tokens.back().id)) beam.tokens.pop_back();
      result.text = text_of(beam);
      for (const std::string& stop : options_.stop) result.text.resize(std::min(result.text.size(), result.text.find(stop)));
      result.tokens = std::move(beam.tokens);
      result.finish = beam.finish;
      result.score = beam.score;
      parts.push_back({prompt_ * static_cast<size_t>(options_.samples) + s, result.text});
    }
  }

  Generation::State& state_;
  const GenerationOptions& options_;
  size_t prompt_;
  std::unique_ptr<Sequences> sequences_;
  std::vector<Tokens> pending_;
  std::vector<Beam> running_, finished_;  // the best first
  std::vector<double> sums_;              // of each row: log of the sum of exponentials
  std::vector<float> scores_;
  Array logits_;                          // of the running beams
  int64_t length_ = 0, most_ = 0;         // tokens of text
  bool can_improve_ = true, is_done_ = false;
};

}  // namespace

std::unique_ptr<Group> beam_group(Generation::State& state, size_t prompt) { return std::make_unique<BeamGroup>(state, prompt); }

}  // namespace pycandle
