#include "verify/judging/taps.h"

#include <algorithm>

namespace pycandle {
namespace {

bool is_argument(const std::string& tap) { return tap.find("/input") != std::string::npos; }

// "h.0.mlp@0/output" and "h.0.mlp@0" → "h.0.mlp"
std::string module_of(const std::string& text) { return text.substr(0, text.rfind('@')); }

// By a module in which the value was not made: an identity, however deep it lies.
bool is_handed_on(const std::string& tap, const std::string& made_in) {
  const std::string module = module_of(tap), maker = module_of(made_in);
  return !module.empty() && maker != module && maker.rfind(module + ".", 0) != 0;
}

// A value leaves several modules at once: the innermost one computed it, and says most.
void innermost_first(std::vector<std::string>& taps, const std::string& made_in) {
  const auto depth = [](const std::string& tap) {
    const std::string module = module_of(tap);
    return module.empty() ? 0 : 1 + std::count(module.begin(), module.end(), '.');
  };
  std::stable_sort(taps.begin(), taps.end(), [&](const std::string& a, const std::string& b) {
    if (is_state(a) != is_state(b)) return is_state(b);
    if (is_argument(a) != is_argument(b)) return is_argument(b);
    if (is_handed_on(a, made_in) != is_handed_on(b, made_in)) return is_handed_on(b, made_in);
    return depth(a) > depth(b);
  });
}

}  // namespace

bool is_state(const std::string& tap) { return tap.rfind(key_after({}), 0) == 0; }

std::map<ValueId, std::vector<std::string>> values_to_judge(const Program& p, const Goldens& goldens) {
  std::map<ValueId, std::vector<std::string>> taps_of;
  const auto is_computed = [&](ValueId v) { return p.graph.values[v].node >= 0; };
  for (const Tap& tap : p.taps) {
    if (!tap.inside && is_computed(tap.value) && goldens.has(tap.value)) taps_of[tap.value].push_back(tap.id);
  }
  for (const Output& output : p.outputs) {  // an output that no tap shows
    if (is_computed(output.value) && goldens.has(output.value) && taps_of.count(output.value) == 0) {
      taps_of[output.value].push_back("output:" + output.name);
    }
  }
  for (const State& state : p.states) {
    if (state.updated != kNoValue && is_computed(state.updated) && goldens.has(state.updated))
      taps_of[state.updated].push_back(key_after(state));
  }
  for (auto& [value, taps] : taps_of) {
    const Node& node = p.graph.nodes[p.graph.values[value].node];
    innermost_first(taps, p.module_path(node.origin));
  }
  return taps_of;
}

std::string path_of(const std::string& tap, const std::string& path_of_node) {
  const size_t slash = tap.rfind('/');
  if (is_argument(tap) || slash == std::string::npos || is_handed_on(tap, path_of_node)) return path_of_node;
  const std::string path = tap.substr(0, slash);
  return path == "@0" ? "" : path;
}

}  // namespace pycandle
