#include "verify/judging/whole_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "backends/reference/reference.h"
#include "verify/judging/slices.h"
#include "verify/judging/states.h"

namespace pycandle {

Program with_drawn_inputs(Program p, const Goldens& goldens, const PerValue<bool>& is_drawn, std::vector<Array>& inputs) {
  std::map<ValueId, ValueId> input_of;
  for (size_t v = 0; v < is_drawn.size(); ++v) {
    if (!is_drawn[v]) continue;
    const auto value = static_cast<ValueId>(v);
    const ValueId input = p.graph.add_input(p.graph.type(value));
    p.inputs.push_back({fmt::format("drawn:{}", v), input, {}, true});
    inputs.push_back(goldens.get(value));
    input_of.emplace(value, input);
  }
  if (input_of.empty()) return p;
  const auto follow = [&](ValueId& v) {
    if (const auto found = input_of.find(v); found != input_of.end()) v = found->second;
  };
  for (Node& node : p.graph.nodes) {
    for (ValueId& v : node.operands) follow(v);
  }
  for (Output& output : p.outputs) follow(output.value);
  for (State& state : p.states) follow(state.updated);
  for (Tap& tap : p.taps) follow(tap.value);
  order_inputs(p);
  p.bind_outputs();
  return p;
}

PerValue<bool> drawn_values(const Program& p, const Goldens& goldens) {
  const size_t count = p.graph.values.size();
  PerValue<bool> depends(count), is_drawn(count);
  for (const Node& node : p.graph.nodes) {
    const bool draws = draws_numbers(node) || std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId v) {
                         return v != kNoValue && depends[v] && !goldens.has(v);
                       });
    for (ValueId v : node.results) {
      depends[v] = draws;
      is_drawn[v] = draws && goldens.has(v);
    }
  }
  return is_drawn;
}

Bindings all_sizes(const Program& p, const OpTable& table, const ParameterSource& parameters, const Goldens& goldens) {
  Bindings sizes = goldens.sizes();
  const bool is_complete = std::all_of(p.symbols.begin(), p.symbols.end(),
                                       [&](const Symbol& s) { return sizes.count(s.name) != 0; });
  if (is_complete) return sizes;
  Bindings found;
  std::vector<Array> states = states_before(p, goldens, parameters);
  RunRequest request;
  request.inputs = goldens.inputs();
  request.states = &states;
  request.found = &found;
  run_reference_modes(decompose_to_primitives(p, table), parameters, {{ReferenceMode::Kind::rounded, 0}}, request);
  sizes.merge(found);
  return sizes;
}

WholeRun run_whole(const Program& p, const OpTable& table, const Backend& backend,
                   const std::shared_ptr<const ParameterSource>& parameters, const Goldens& goldens,
                   const PipelineOptions& pipeline) {
  const PerValue<bool> is_drawn = drawn_values(p, goldens);
  WholeRun whole;
  RunRequest request;
  request.inputs = goldens.inputs();
  const Program fed = with_drawn_inputs(p, goldens, is_drawn, request.inputs);
  std::vector<Array> outputs, states = states_before(p, goldens, *parameters);
  request.states = &states;
  request.prepare_fully = true;  // what is verified is what later calls run
  const auto is_compared = [&](ValueId v) { return goldens.has(v) && !is_drawn[v]; };
  request.on_tap = [&](size_t tap, const Array& value) {
    const ValueId v = p.taps[tap].value;
    if (!is_compared(v) || whole.taps.count(v) != 0) return;
    const Metrics& metrics = whole.taps.emplace(v, compare_with_sizes(value, goldens.get(v))).first->second;
    if (!is_inexact(value.dtype()) && metrics.differing > 0) whole.other_integers.emplace(v, value);
  };
  try {
    outputs = backend.compile(fed, table, parameters, pipeline)->run(request);
  } catch (const Error& error) {  // a wrong index: which layer gave it is what people want to know
    whole.failure = error;
    return whole;
  }
  const auto add = [&](const std::string& name, ValueId v, const Array& ours, const std::optional<Array>& golden) {
    if (!golden || is_drawn[v]) return;
    whole.results.push_back({name, v, ours, *golden, compare_with_sizes(ours, *golden)});
    if (goldens.has(v)) whole.taps.emplace(v, whole.results.back().metrics);
  };
  for (size_t i = 0; i < outputs.size(); ++i) {
    add(p.outputs[i].name, p.outputs[i].value, outputs[i], goldens.output(p.outputs[i].name));
  }
  for (size_t i = 0; i < states.size(); ++i) {
    if (p.states[i].updated != kNoValue)
      add(key_after(p.states[i]), p.states[i].updated, states[i], goldens.updated(p.states[i]));
  }
  return whole;
}

}  // namespace pycandle
