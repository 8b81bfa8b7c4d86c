#include "generate/grammar.h"

#include <algorithm>
#include <limits>

namespace pycandle {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max() / 4;

}  // namespace

Grammar::Rule Grammar::new_rule() {
  rules_.emplace_back();
  return {static_cast<int32_t>(rules_.size()) - 1};
}

void Grammar::add(Rule rule, Sequence alternative) { rules_[static_cast<size_t>(rule.id)].push_back(std::move(alternative)); }

Grammar::Element Grammar::one_of(std::string_view ascii) {
  std::vector<std::pair<char32_t, char32_t>> ranges;
  for (const char c : ascii) ranges.emplace_back(c, c);
  return Element(std::move(ranges));
}

Grammar::Sequence Grammar::literal(std::string_view ascii) {
  Sequence sequence;
  for (const char c : ascii) sequence.push_back(one_of({&c, 1}));
  return sequence;
}

bool Grammar::has_left_recursion() const {
  std::vector<bool> may_be_empty(rules_.size(), false);
  const auto is_empty = [&](const Element& e) { return e.rule >= 0 && may_be_empty[static_cast<size_t>(e.rule)]; };
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t rule = 0; rule < rules_.size(); ++rule) {
      const bool empty = std::any_of(rules_[rule].begin(), rules_[rule].end(),
                                     [&](const Sequence& s) { return std::all_of(s.begin(), s.end(), is_empty); });
      changed = changed || (empty && !may_be_empty[rule]);
      may_be_empty[rule] = empty;
    }
  }
  enum class Visit : uint8_t { none, open, done };
  std::vector<Visit> visits(rules_.size(), Visit::none);
  std::vector<std::pair<size_t, bool>> work;  // a rule, and whether what it begins with has been seen
  for (size_t root = 0; root < rules_.size(); ++root) work.emplace_back(root, false);
  while (!work.empty()) {
    const auto [rule, is_after] = work.back();
    work.pop_back();
    if (is_after) visits[rule] = Visit::done;
    if (is_after || visits[rule] == Visit::done) continue;
    if (visits[rule] == Visit::open) return true;
    visits[rule] = Visit::open;
    work.emplace_back(rule, true);
    for (const Sequence& alternative : rules_[rule]) {
      for (const Element& element : alternative) {
        if (element.rule >= 0) work.emplace_back(static_cast<size_t>(element.rule), false);
        if (!is_empty(element)) break;
      }
    }
  }
  return false;
}

Reader::Reader(const Grammar& grammar, Grammar::Rule start) {
  for (const auto& rule : grammar.rules_) {
    std::vector<int32_t>& begins = alternatives_.emplace_back();
    for (const Grammar::Sequence& alternative : rule) {
      begins.push_back(static_cast<int32_t>(places_.size()));
      for (const Grammar::Element& element : alternative) places_.push_back({element.rule, element.ranges});
      places_.push_back({-1, {}, true});
    }
  }
  measure();
  std::vector<Stack> stacks;
  for (const int32_t begin : alternatives_[static_cast<size_t>(start.id)]) expand({begin}, stacks);
  number_of(std::move(stacks));
}

// The shortest text of each rule: grown until nothing changes.
void Reader::measure() {
  shortest_.assign(alternatives_.size(), kNever);
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t place = places_.size(); place-- > 0;) {
      Place& p = places_[place];
      if (p.is_end) continue;
      const int64_t own = p.rule >= 0 ? shortest_[static_cast<size_t>(p.rule)] : 1;
      p.shortest = std::min(kNever, own + places_[place + 1].shortest);
    }
    for (size_t rule = 0; rule < alternatives_.size(); ++rule) {
      for (const int32_t begin : alternatives_[rule]) {
        const int64_t length = places_[static_cast<size_t>(begin)].shortest;
        if (length >= shortest_[rule]) continue;
        shortest_[rule] = length;
        changed = true;
      }
    }
  }
}

// Stacks whose innermost place is a character, or that are empty: a text may end here.
void Reader::expand(Stack stack, std::vector<Stack>& into) const {
  while (!stack.empty() && places_[static_cast<size_t>(stack.back())].is_end) stack.pop_back();
  if (stack.empty() || places_[static_cast<size_t>(stack.back())].rule < 0) {
    into.push_back(std::move(stack));
    return;
  }
  const auto rule = static_cast<size_t>(places_[static_cast<size_t>(stack.back())].rule);
  ++stack.back();
  if (places_[static_cast<size_t>(stack.back())].is_end) stack.pop_back();  // so that a list does not grow the stack
  for (const int32_t begin : alternatives_[rule]) {
    Stack inner = stack;
    inner.push_back(begin);
    expand(std::move(inner), into);
  }
}

Reader::State Reader::number_of(std::vector<Stack> stacks) {
  std::sort(stacks.begin(), stacks.end());
  stacks.erase(std::unique(stacks.begin(), stacks.end()), stacks.end());
  const auto [found, is_new] = numbers_.emplace(std::move(stacks), static_cast<State>(states_.size()));
  if (!is_new) return found->second;
  states_.push_back(&found->first);
  Facts facts{false, true, kNever};
  for (const Stack& stack : found->first) {
    facts.may_end = facts.may_end || stack.empty();
    facts.must_end = facts.must_end && stack.empty();
    int64_t length = 0;
    for (const int32_t place : stack) length += places_[static_cast<size_t>(place)].shortest;
    facts.shortest = std::min(facts.shortest, length);
  }
  facts_.push_back(facts);
  return found->second;
}

std::optional<Reader::State> Reader::next(State state, char32_t character) {
  const uint64_t key = static_cast<uint64_t>(state) << 32U | character;
  if (const auto known = ways_.find(key); known != ways_.end())
    return known->second < 0 ? std::nullopt : std::optional(known->second);
  std::vector<Stack> after;
  for (const Stack& stack : *states_[static_cast<size_t>(state)]) {
    if (stack.empty()) continue;
    const auto& ranges = places_[static_cast<size_t>(stack.back())].ranges;
    const bool fits = std::any_of(ranges.begin(), ranges.end(),
                                  [&](const auto& range) { return range.first <= character && character <= range.second; });
    if (!fits) continue;
    Stack onward = stack;
    ++onward.back();
    expand(std::move(onward), after);
  }
  const State found = after.empty() ? -1 : number_of(std::move(after));
  ways_.emplace(key, found);
  return found < 0 ? std::nullopt : std::optional(found);
}

}  // namespace pycandle
