#include "verify/diagnosing/causes.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "verify/diagnosing/search.h"

namespace pycandle {

double rms_between(const Array& a, const Array& b) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return std::numeric_limits<double>::infinity();
  return compare(a, b).rms;
}

size_t position_of(const Program& p, ValueId input) {
  return static_cast<size_t>(std::find(p.graph.inputs.begin(), p.graph.inputs.end(), input) - p.graph.inputs.begin());
}

double Search::seconds_worked() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

Search::Search(const Suspect& suspect, const Trials& trials, double seconds)
    : s_(suspect),
      trials_(trials),
      end_(seconds_worked() + seconds),
      now_(trials.rounded(suspect.slice.program, suspect.inputs)),
      is_mistyped_(now_.dtype() != suspect.value.dtype() || now_.shape() != suspect.value.shape()),
      before_(rms_between(now_, suspect.value)) {}

// Mistakes without a number first: they say most. What fits there is not looked for further.
Causes Search::run() {
  attempt([&] { absent_result(); });
  if (is_found()) return result();
  catalogue_mistakes();
  if (keep_what_was_recorded() || is_mistyped_) return result();
  if (is_found()) {  // the same op may have another number, which gives the same value
    std::set<NodeId> named;
    for (const Found& f : found_) named.insert({f.at, f.cause.node});
    const std::vector<Found> without_numbers = found_;
    const bool is_source = recorded_program().has_value();
    numbers(Numbers::all, is_source ? nullptr : &named);
    if (is_source && !keep_what_was_recorded()) found_ = without_numbers;
  }
  if (!recorded_program()) {
    numbers(Numbers::usual);
    attempt([&] { integer_parameters(); });
  } else if (!is_found()) {  // the recorded program decides, before anything that only does the same here
    numbers(Numbers::usual);
    if (keep_what_was_recorded()) return result();
    found_.clear();
  }
  struct Step {
    void (Search::*look)();
    bool of_backend = false;  // looked for in a backend's value too
  };
  if (!is_settled()) {
    // Another base and another divisor of an angle do the same: the shorter number is the one that somebody wrote.
    for (const int digits : {2, kMostDigits}) {
      if (!is_settled()) attempt([&] { alike_mistakes(digits); });
    }
    if (keep_what_was_recorded()) return result();
  }
  // Source code reads the files that the recorded program reads: there another weight is the last to be thought of.
  if (!recorded_program() && !s_.is_backend && !is_settled()) attempt([&] { changed_parameters(); });
  for (const auto& [look, of_backend] :
       {Step{&Search::weights, true}, Step{&Search::absent_parameters}, Step{&Search::absent_factors},
        Step{&Search::residuals, true}, Step{&Search::stale_states, true}, Step{&Search::exchanged_inputs},
        Step{&Search::exchanged_parameters}, Step{&Search::other_parts, true}, Step{&Search::other_inputs},
        Step{&Search::residuals_before}, Step{&Search::absent_masks}, Step{&Search::absent_activations},
        Step{&Search::norm_order}}) {
    if (is_settled()) break;
    if (s_.is_backend && !of_backend) continue;
    attempt([&, look = look] { (this->*look)(); });
    keep_what_was_recorded();
  }
  if (recorded_program() && !s_.is_backend && !is_settled()) attempt([&] { changed_parameters(); });
  // A number in the program may do what a factor in a file does.
  const bool is_of_file = std::any_of(found_.begin(), found_.end(), [](const Found& f) { return !f.cause.parameter.empty(); });
  if (!is_settled() || is_of_file) {
    numbers(Numbers::all);
    keep_what_was_recorded();
  }
  return result();
}

bool Search::is_settled() const {
  constexpr double kAsClose = 1.5;
  return std::any_of(found_.begin(), found_.end(), [](const Found& f) { return f.fit.left <= kAsClose * f.fit.floor; });
}

std::optional<Search::Fit> Search::explained_by(Program p, std::vector<Array> inputs) {
  ++tried_;
  try {
    if (is_mistyped_ && !std::isfinite(rms_between(trials_.rounded(p, inputs), s_.value))) return std::nullopt;
    const Judgement j = trials_.explains(p, inputs, s_.value);
    if (!j.passed) return std::nullopt;
    if (!is_inexact(s_.value.dtype()) || !std::isfinite(before_))
      return Fit{std::move(p), std::move(inputs), j.error_rms, j.floor_rms};
    // Rounded as the value itself is: in half precision, and beside far larger numbers, the exact value is further away.
    const double left = std::min(j.error_rms, rms_between(trials_.rounded(p, inputs), s_.value));
    if (left * kRemoves > before_) return std::nullopt;
    return Fit{std::move(p), std::move(inputs), left, j.floor_rms};
  } catch (const std::exception&) {
    return std::nullopt;  // sizes or indices that the mistake does not fit
  }
}

// A rounding more: exact arithmetic does not see it, so the rounded value itself must be the one in question.
std::optional<Search::Fit> Search::rounded_to(Program p) {
  ++tried_;
  const Metrics m = compare(trials_.rounded(p, s_.inputs), s_.value);
  const bool fits = m.rms * kRemoves <= before_ && m.rms <= kRmsFactor * s_.floor_rms && m.max_abs <= kMaxFactor * s_.floor_max;
  return fits ? std::optional(Fit{std::move(p), s_.inputs, m.rms, s_.floor_rms}) : std::nullopt;
}

// Two mistakes that make the same program of it are one: keys and values swapped in attention, or in the split before.
bool Search::is_another(const Structure& made) const {
  return std::none_of(found_.begin(), found_.end(), [&](const Found& f) { return f.structure == made; });
}

void Search::add(Cause cause, Fit fit) {
  Structure structure = structure_of(fit.program);
  const NodeId at = cause.node;
  found_.push_back({std::move(cause), std::move(fit), std::move(structure), at});
}

bool Search::add_mistake(NodeId n, const Mistake& v, double number, const std::string& instead, Fit fit) {
  if (!is_another(structure_of(fit.program))) return false;
  bool is_out = false;
  attempt([&] { is_out = is_contradicted(n, v, number); });
  if (is_out) return false;
  add(cause(n, v.kind, v.now, instead), std::move(fit));
  found_.back().at = n;
  return true;
}

std::string Search::sentence(const std::string& now, const std::string& instead) const {
  return fmt::format("looks like {} where the model uses {}", s_.is_backend ? instead : now, s_.is_backend ? now : instead);
}

Cause Search::cause(NodeId node, const std::string& kind, const std::string& now, const std::string& instead) const {
  return {kind, sentence(now, instead), reader_of(node)};
}

bool Search::try_mistake(NodeId n, const Mistake& v) {
  if (is_over() || (is_mistyped_ && v.only_rounds)) return false;
  const Node& node = graph().nodes[n];
  auto p = is_mistyped_ ? with_mistake_of_any_type(s_.slice, trials_.table(), node, v)
                        : with_mistake(s_.slice, trials_.table(), node, v, 0);
  if (!p && !is_mistyped_ && !v.only_rounds) {  // another type on the way, and the same at the end
    p = with_mistake_of_any_type(s_.slice, trials_.table(), node, v);
    const ValueId result = program().outputs[0].value;
    if (p && p->graph.type(p->outputs[0].value) != graph().type(result)) p.reset();
  }
  if (!p) return false;
  std::optional<Fit> fit = v.only_rounds ? rounded_to(std::move(*p)) : explained_by(std::move(*p), s_.inputs);
  return fit && add_mistake(n, v, 0, v.instead, std::move(*fit));
}

void Search::catalogue_mistakes() {
  for (size_t n = graph().nodes.size(); n-- > 0;) {
    attempt([&] {
      for (const Mistake& v : mistakes_of(graph().nodes[n], graph(), trials_.sizes(), trials_.table())) {
        if (!v.has_number()) attempt([&] { try_mistake(n, v); });
      }
    });
  }
}

// The same mistake at every node of one kind: queries and keys are turned by one piece of code, and its numbers stand there once.
void Search::alike_mistakes(int most_digits) {
  const std::vector<Node>& nodes = graph().nodes;
  const auto all_of = [&](const Node& node) { return mistakes_of(node, graph(), trials_.sizes(), trials_.table()); };
  std::set<size_t> done;
  for (size_t n = 0; n < nodes.size(); ++n) {
    if (done.count(n) != 0) continue;
    std::vector<size_t> alike{n};
    for (size_t other = n + 1; other < nodes.size(); ++other) {
      const bool is_alike = nodes[other].op == nodes[n].op && nodes[other].attributes.size() == nodes[n].attributes.size() &&
                            std::equal(
                                nodes[n].attributes.begin(), nodes[n].attributes.end(), nodes[other].attributes.begin(),
                                [](const auto& a, const auto& b) { return a.first == b.first && same(a.second, b.second); });
      if (is_alike) alike.push_back(other);
    }
    done.insert(alike.begin(), alike.end());
    if (alike.size() < 2) continue;
    std::vector<std::vector<Mistake>> mistakes;
    for (const size_t at : alike) mistakes.push_back(all_of(nodes[at]));
    for (size_t m = 0; m < mistakes[0].size(); ++m) {
      std::vector<std::pair<const Node*, Mistake>> each;
      for (size_t k = 0; k < alike.size(); ++k) {
        if (m < mistakes[k].size() && mistakes[k][m].kind == mistakes[0][m].kind)
          each.emplace_back(&nodes[alike[k]], mistakes[k][m]);
      }
      if (each.size() == alike.size() && !each[0].second.only_rounds) attempt([&] { try_alike(n, each, most_digits); });
      if (is_over()) return;
    }
  }
}

bool Search::try_alike(NodeId n, const std::vector<std::pair<const Node*, Mistake>>& each, int most_digits) {
  const Mistake& v = each[0].second;
  const auto try_number = [&](double number, const std::string& text) {
    if (is_over()) return false;
    auto p = with_mistakes(s_.slice, trials_.table(), each, number);
    if (!p) return false;
    std::optional<Fit> fit = explained_by(std::move(*p), s_.inputs);
    if (!fit || !is_another(structure_of(fit->program))) return false;
    add(cause(n, v.kind, v.now, text.empty() ? v.instead : fmt::format(fmt::runtime(v.instead), text)), std::move(*fit));
    return true;
  };
  if (!v.has_number()) return try_number(0, "");
  for (const double number : v.usual) {
    if (try_number(number, fmt::format("{:.9g}", number))) return true;
  }
  if (v.grid.empty()) return false;
  const std::optional<double> found = best_number(v.grid, [&](double x) {
    const auto p = with_mistakes(s_.slice, trials_.table(), each, x);
    return p ? rms_between(trials_.rounded(*p, s_.inputs), s_.value) : std::numeric_limits<double>::infinity();
  });
  for (int digits = 1; digits <= most_digits; ++digits) {
    const std::string text = found ? fmt::format("{:.{}g}", *found, digits) : "";
    if (!text.empty() && try_number(std::stod(text), text)) return true;
  }
  return false;
}

// ---- the slice

NodeId Search::reader_of(NodeId node) const {
  static const std::set<std::string, std::less<>> kOnlyHands{"constant", "broadcast"};
  while (kOnlyHands.count(graph().nodes[node].op->name) != 0) {
    const NodeId reader = user_of(graph().nodes[node].results[0]);
    if (reader <= node) break;
    node = reader;
  }
  return node;
}

NodeId Search::user_of(ValueId v) const {
  const auto& nodes = graph().nodes;
  for (NodeId n = 0; nodes.has(n); ++n) {
    if (std::find(nodes[n].operands.begin(), nodes[n].operands.end(), v) != nodes[n].operands.end()) return n;
  }
  return last_node();
}

std::string Search::input_name(size_t i) const {
  const std::string name = name_of_value(s_.program, s_.slice.inputs[i]);
  return name.empty() ? program().inputs[i].name : name;
}

// ---- what was found

const Cause* Causes::only() const {
  if (found.empty()) return nullptr;
  const bool is_one = std::all_of(found.begin(), found.end(),
                                  [&](const Cause& c) { return c.kind == found[0].kind && c.parameter == found[0].parameter; });
  return is_one ? &found[0] : nullptr;
}

std::string Causes::text() const {
  if (found.empty()) return fmt::format("none of {} mistakes that were tried gives this value", tried);
  if (only()) return found[0].sentence;
  std::string text = "several mistakes would give this value: ";
  for (size_t i = 0; i < found.size(); ++i) text += (i == 0 ? "" : "; or it ") + found[i].sentence;
  return text;
}

Causes find_causes(const Suspect& suspect, const Trials& trials, double seconds) {
  return Search(suspect, trials, seconds).run();
}

}  // namespace pycandle
