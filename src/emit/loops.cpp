// Finds loops: runs of calls of the same classes in the same order, each iteration fed by the one before.
#include <algorithm>
#include <map>

#include "emit/draft.h"

namespace pycandle::emit {
namespace {

constexpr size_t kLongestPeriod = 6;
constexpr size_t kFewestOfNn = 4;  // conv, relu, conv, relu reads better than a loop of two

// One candidate: `count` iterations of `period` steps.
class Candidate {
 public:
  Candidate(const std::vector<RawStep>& steps, size_t begin, size_t period, size_t count)
      : steps_(&steps), begin_(begin), period_(period), count_(count) {}

  std::optional<Loop> loop(const Values& needed) {
    for (size_t phase = 0; phase < period_; ++phase) {
      for (size_t a = 0; a < at(0, phase).arguments.size(); ++a) {
        if (!fits(phase, a)) return {};
      }
    }
    Loop found{begin_, period_, count_, {}};
    for (const auto& [source, initial] : carried_) {
      const auto [phase, result] = source;
      found.carried.push_back({initial, at(0, phase).results[result], at(count_ - 1, phase).results[result]});
    }
    if (!results_stay_inside(needed, found.carried)) return {};
    return found;
  }

 private:
  using Source = std::pair<size_t, size_t>;  // phase, result

  const RawStep& at(size_t iteration, size_t phase) const { return (*steps_)[begin_ + iteration * period_ + phase]; }

  std::optional<Source> result_of(size_t iteration, ValueId v) const {
    for (size_t phase = 0; phase < period_; ++phase) {
      const Values& results = at(iteration, phase).results;
      const auto found = std::find(results.begin(), results.end(), v);
      if (found != results.end()) return Source{phase, static_cast<size_t>(found - results.begin())};
    }
    return {};
  }

  // Argument a of a phase is the same outside value each time, a result of this iteration, or one of the iteration before.
  bool fits(size_t phase, size_t a) {
    const auto argument = [&](size_t iteration) { return at(iteration, phase).arguments[a]; };
    const auto result = [&](size_t iteration, const Source& s) { return at(iteration, s.first).results[s.second]; };
    const ValueId start = argument(0);
    const std::optional<Source> here = result_of(0, start);
    const std::optional<Source> before = here ? std::nullopt : result_of(0, argument(1));
    for (size_t i = 1; i < count_; ++i) {
      const ValueId expected = here ? result(i, *here) : before ? result(i - 1, *before) : start;
      if (argument(i) != expected) return false;
    }
    if (!before) return true;
    const auto [known, is_new] = carried_.emplace(*before, start);
    return is_new || known->second == start;
  }

  // What the calls give is used by the next iteration alone, and after the last one only what is carried on.
  bool results_stay_inside(const Values& needed, const std::vector<Carried>& carried) const {
    const size_t end = begin_ + period_ * count_;
    const auto used_outside = [&](ValueId v) {
      if (std::find(needed.begin(), needed.end(), v) != needed.end()) return true;
      for (size_t s = 0; s < steps_->size(); ++s) {
        if (s >= begin_ && s < end) continue;
        const Values& used = (*steps_)[s].arguments;
        if (std::find(used.begin(), used.end(), v) != used.end()) return true;
      }
      return false;
    };
    for (size_t i = 0; i < count_; ++i) {
      for (size_t phase = 0; phase < period_; ++phase) {
        for (const ValueId v : at(i, phase).results) {
          const bool is_final = i + 1 == count_ &&
                                std::any_of(carried.begin(), carried.end(), [&](const Carried& c) { return c.final == v; });
          if (!is_final && used_outside(v)) return false;
        }
      }
    }
    return true;
  }

  const std::vector<RawStep>* steps_;
  size_t begin_, period_, count_;
  std::map<Source, ValueId> carried_;
};

// Is `later` the step that stands for `earlier`, `iterations` on?
bool is_same_phase(const RawStep& earlier, const RawStep& next, const RawStep& later, int64_t iterations) {
  if (later.kind.empty() || later.kind != earlier.kind || later.arguments.size() != earlier.arguments.size()) return false;
  if (later.path == earlier.path) return next.path == earlier.path;  // one shared module
  const int64_t stride = next.index - earlier.index;
  return earlier.index >= 0 && later.list == earlier.list && later.index == earlier.index + stride * iterations;
}

size_t longest_run(const std::vector<RawStep>& steps, size_t begin, size_t period) {
  size_t count = 1;
  for (;; ++count) {
    for (size_t phase = 0; phase < period; ++phase) {
      const size_t later = begin + count * period + phase;
      if (later >= steps.size()) return count;
      const RawStep& earlier = steps[begin + phase];
      if (earlier.kind.empty()) return 1;
      if (!is_same_phase(earlier, steps[begin + period + phase], steps[later], static_cast<int64_t>(count))) return count;
    }
  }
}

}  // namespace

std::optional<Loop> loop_at(const std::vector<RawStep>& steps, size_t begin, const Values& needed) {
  std::optional<Loop> best;
  for (size_t period = 1; period <= kLongestPeriod && begin + 2 * period <= steps.size(); ++period) {
    bool all_nn = true;
    for (size_t phase = 0; phase < period; ++phase) all_nn = all_nn && steps[begin + phase].is_nn;
    const size_t fewest = all_nn ? kFewestOfNn : 2;
    for (size_t count = longest_run(steps, begin, period); count >= fewest; --count) {
      const std::optional<Loop> found = Candidate(steps, begin, period, count).loop(needed);
      if (!found) continue;
      if (!best || found->size() > best->size()) best = found;
      break;
    }
  }
  return best;
}

}  // namespace pycandle::emit
