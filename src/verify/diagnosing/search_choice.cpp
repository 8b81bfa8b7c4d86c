// Several mistakes may give the value: which of them it is.
#include <algorithm>

#include "verify/diagnosing/search.h"
#include "verify/diagnosing/trial_inputs.h"

namespace pycandle {

const std::optional<Program>& Search::recorded_program() {
  if (!has_asked_for_recorded_ && s_.recorded_program) recorded_ = s_.recorded_program();
  has_asked_for_recorded_ = true;
  return recorded_;
}

// Undoing one of them gives the very program that was recorded: it is that one.
bool Search::keep_what_was_recorded() {
  if (!is_found() || !recorded_program()) return false;
  const Structure right = structure_of(*recorded_program());
  const auto it = std::find_if(found_.begin(), found_.end(), [&](const Found& f) { return f.structure == right; });
  if (it == found_.end()) return false;
  found_ = {Found(*it)};
  return true;
}

// What passes only because rounding may do so much, beside one that needs no such slack.
void Search::leave_out_slack() {
  if (found_.empty()) return;
  const auto best = std::min_element(found_.begin(), found_.end(),
                                     [](const Found& a, const Found& b) { return a.fit.left < b.fit.left; });
  const double most = 2 * best->fit.left + best->fit.floor / 4;
  std::erase_if(found_, [&](const Found& f) { return f.fit.left > most; });
}

// The node is used for another value too, which is right as it is and would be wrong with this mistake.
bool Search::is_contradicted(NodeId at, const Mistake& mistake, double number) const {
  if (mistake.only_rounds || !s_.right_values) return false;
  const NodeId original = graph().nodes[at].origin.sliced_from;
  for (const Suspect::RightValue& other : s_.right_values(original)) {
    const std::vector<Node>& nodes = other.slice.program.graph.nodes;
    const auto node = std::find_if(nodes.begin(), nodes.end(), [&](const Node& n) { return n.origin.sliced_from == original; });
    if (node == nodes.end()) continue;
    const auto p = with_mistake(other.slice, trials_.table(), *node, mistake, number);
    if (p && !trials_.explains(*p, other.inputs, other.value).passed) return true;
  }
  return false;
}

// From other inputs too, as far as they tell.
bool Search::are_equal(const Found& a, const Found& b) const {
  if (a.fit.inputs.size() != b.fit.inputs.size()) return false;
  for (size_t i = 0; i < a.fit.inputs.size(); ++i) {
    if (!a.fit.inputs[i].same_bytes(b.fit.inputs[i])) return false;
  }
  std::vector<std::vector<std::pair<std::string, Array>>> variants;
  size_t most = 0;
  for (const Array& input : a.fit.inputs) most = std::max(most, variants.emplace_back(variants_of(input)).size());
  for (size_t v = 1; v < most; ++v) {
    std::vector<Array> inputs;
    for (const auto& of_one : variants) inputs.push_back(of_one[std::min(v, of_one.size() - 1)].second);
    if (!trials_.explains(a.fit.program, inputs, trials_.rounded(b.fit.program, inputs)).passed) return false;
  }
  return true;
}

// Mistakes that mean one thing are one: the likeliest says it, else the first that was found. Another number is likelier than
// another function, and what stands in the program than what stands in a file, whose checksum was looked at.
void Search::leave_out_equal() {
  const auto unlikely = [](const Found& f) {
    const bool is_other_function = f.cause.kind == "function" || f.cause.kind == "comparison";
    return !f.cause.parameter.empty() ? 2 : is_other_function ? 1 : 0;
  };
  std::stable_sort(found_.begin(), found_.end(), [&](const Found& a, const Found& b) { return unlikely(a) < unlikely(b); });
  for (size_t i = 0; i < found_.size(); ++i) {
    for (size_t j = found_.size(); j-- > i + 1;) {
      const Cause &a = found_[i].cause, &b = found_[j].cause;
      bool is_same = a.sentence == b.sentence;
      if (!is_same && (a.kind != b.kind || a.parameter != b.parameter)) {
        attempt([&] { is_same = are_equal(found_[i], found_[j]); });
      }
      if (is_same) found_.erase(found_.begin() + static_cast<std::ptrdiff_t>(j));
    }
  }
}

Causes Search::result() {
  leave_out_slack();
  if (found_.size() > 1) leave_out_equal();
  Causes causes;
  for (Found& f : found_) causes.found.push_back(std::move(f.cause));
  causes.tried = tried_;
  return causes;
}

}  // namespace pycandle
