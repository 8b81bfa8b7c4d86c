#include "verify/judging/states.h"

#include <utility>

#include "ir/builder.h"

namespace pycandle {

Program with_computed_states(Program p, const OpTable& table, const std::function<Origin(const State&)>& origin_of) {
  Builder b(p.graph, table);
  for (State& state : p.states) {
    if (state.updated == kNoValue || p.graph.values[state.updated].node >= 0) continue;
    b.origin = origin_of(state);
    state.updated = b.create("reshape", {state.updated}, {{"shape", b.shape(state.updated)}});
  }
  p.bind_outputs();
  return p;
}

void order_inputs(Program& p) {
  p.graph.inputs.clear();
  const auto bind = [&](ValueId v) {
    if (v == kNoValue) return;
    p.graph.values[v].index = static_cast<int32_t>(p.graph.inputs.size());
    p.graph.inputs.push_back(v);
  };
  for (const Input& input : p.inputs) bind(input.value);
  for (const Parameter& parameter : p.parameters) bind(parameter.value);
  for (const State& state : p.states) bind(state.value);
}

Program program_to_judge(Program imported, const OpTable& table, const PipelineOptions& options) {
  const Program p = run_program_pipeline(std::move(imported), table, options);
  return with_computed_states(p, table, [&](const State& state) { return owner_of(p, state); });
}

Origin owner_of(const Program& p, const State& state) {
  const size_t dot = state.name.rfind('.');
  const std::string module = dot == std::string::npos ? "" : state.name.substr(0, dot);
  Origin origin;
  for (size_t c = 0; c < p.calls.size() && origin.call < 0; ++c) {
    if (p.calls[c].path == module) origin = {static_cast<int32_t>(c), p.calls[c].class_file, p.calls[c].forward_line, {}};
  }
  return origin;
}

}  // namespace pycandle
