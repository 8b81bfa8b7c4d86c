#include "verify/judging/taps.h"

#include <algorithm>

namespace pycandle {
namespace {

using Kind = TapId::Kind;

// By a module in which the value was not made: an identity, however deep it lies.
bool is_handed_on(const TapId& tap, const std::string& made_in) {
  const std::string maker = TapId::parse(made_in).module;
  return !tap.module.empty() && maker != tap.module && !maker.starts_with(tap.module + ".");
}

// A value leaves several modules at once: the innermost one computed it, and says most.
void innermost_first(std::vector<TapId>& taps, const std::string& made_in) {
  const auto depth = [](const TapId& tap) {
    return tap.module.empty() ? 0 : 1 + std::count(tap.module.begin(), tap.module.end(), '.');
  };
  const auto is_state = [](const TapId& tap) { return tap.kind == Kind::state_after; };
  std::stable_sort(taps.begin(), taps.end(), [&](const TapId& a, const TapId& b) {
    if (is_state(a) != is_state(b)) return is_state(b);
    if (a.is_argument() != b.is_argument()) return b.is_argument();
    if (is_handed_on(a, made_in) != is_handed_on(b, made_in)) return is_handed_on(b, made_in);
    return depth(a) > depth(b);
  });
}

}  // namespace

std::map<ValueId, std::vector<TapId>> values_to_judge(const Program& p, const Goldens& goldens) {
  std::map<ValueId, std::vector<TapId>> taps_of;
  const auto is_computed = [&](ValueId v) { return p.graph.values[v].node >= 0; };
  for (const Tap& tap : p.taps) {
    if (!tap.inside && is_computed(tap.value) && goldens.has(tap.value)) taps_of[tap.value].push_back(tap.id);
  }
  for (const Output& output : p.outputs) {  // an output that no tap shows
    if (is_computed(output.value) && goldens.has(output.value) && taps_of.count(output.value) == 0) {
      taps_of[output.value].emplace_back(Kind::output, output.name);
    }
  }
  for (const State& state : p.states) {
    if (state.updated != kNoValue && is_computed(state.updated) && goldens.has(state.updated))
      taps_of[state.updated].emplace_back(Kind::state_after, state.name);
  }
  for (auto& [value, taps] : taps_of) {
    const Node& node = p.graph.nodes[p.graph.values[value].node];
    innermost_first(taps, p.module_path(node.origin));
  }
  return taps_of;
}

std::string path_of(const TapId& tap, const std::string& path_of_node) {
  if (tap.kind != Kind::module_output || is_handed_on(tap, path_of_node)) return path_of_node;
  return tap.module.empty() && tap.call == 0 ? "" : tap.module_call();
}

}  // namespace pycandle
