#include "verify/judging/run_choices.h"

#include <fmt/format.h>

#include <algorithm>

#include "verify/judging/selections.h"

namespace pycandle {
namespace {

bool computes_with_floats(const Program& p) {
  return std::any_of(p.graph.nodes.begin(), p.graph.nodes.end(), [&](const Node& node) {
    return std::any_of(node.operands.begin(), node.operands.end(),
                       [&](ValueId v) { return v != kNoValue && is_inexact(p.graph.type(v).dtype); });
  });
}

std::string difference(const WholeRun::Result& r, const std::string& whose) {
  if (r.ours.shape() != r.golden.shape())
    return fmt::format("has the sizes {} where {}'s value has {}", to_string(r.ours.shape()), whose, to_string(r.golden.shape()));
  return fmt::format("{} of {} {} values are not {}'s", r.metrics.differing, r.golden.size(), name_of(r.golden.dtype()), whose);
}

}  // namespace

RunChoice look_at_run_choice(const Program& p, const Goldens& goldens, const Trials& trials, const WholeRun& whole,
                             const WholeRun::Result& result, const Array& reference, const std::string& whose) {
  const std::string what = difference(result, whose);
  if (result.ours.same_bytes(reference)) return {false, what + "; nor is the reference's, each layer being right: rounding"};
  Slicer slicer(p, drawn_values(p, goldens));
  const Slice all = slicer.slice(result.value);
  if (!computes_with_floats(all.program)) return {true, what + ", and no rounding is on the way to it"};

  ValueId first = result.value;  // the first on the way that differs
  for (const Node& node : all.program.graph.nodes) {
    for (ValueId v : p.graph.nodes[node.origin.sliced_from].results) {
      if (whole.other_integers.count(v) != 0) first = std::min(first, v);
    }
  }
  const bool is_result = first == result.value;
  const Array golden = is_result ? result.golden : goldens.get(first),
              ours = is_result ? result.ours : whole.other_integers.at(first);
  const Slice slice = slicer.slice(first);
  const std::vector<Array> inputs = known_arrays(p, goldens, *trials.parameters(), slice.inputs);
  std::optional<Decisions> decisions = look_at_decisions(slice, trials, inputs, golden, ours);
  if (!decisions) decisions = look_at_selections(slice, trials, inputs, golden, ours);
  if (!decisions) return {false, what + "; whether rounding decided that is not known"};
  if (decisions->within_rounding) return {false, fmt::format("{}; rounding decides: {}", what, decisions->text(whose))};
  return {true, fmt::format("{}, which rounding does not explain: {}", what, decisions->text(whose))};
}

}  // namespace pycandle
