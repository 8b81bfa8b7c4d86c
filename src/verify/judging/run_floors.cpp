#include "verify/judging/run_floors.h"

#include <utility>

#include "backends/reference/reference.h"
#include "verify/judging/whole_run.h"

namespace pycandle {

RunFloors run_floors(const Program& p, const OpTable& table, const ParameterSource& parameters, const Goldens& goldens) {
  const PerValue<bool> is_drawn = drawn_values(p, goldens);
  RunRequest request;
  request.inputs = goldens.inputs();
  Program fed = with_drawn_inputs(p, goldens, is_drawn, request.inputs);
  std::vector<Array> states = states_before(p, goldens, parameters);
  request.states = &states;
  fed.taps.clear();
  std::vector<std::pair<std::string, ValueId>> wanted;
  for (const auto& [key, entry] : goldens.file().entries()) {
    const ValueId v = goldens.value_of(key);
    const bool is_judged = v != kNoValue && !is_drawn[v] && is_inexact(p.graph.type(v).dtype) && p.graph.values[v].node >= 0;
    if (!is_judged) continue;
    wanted.emplace_back(key, v);
    fed.taps.push_back({TapId::parse(key), v, key, false});
  }
  using Kind = ReferenceMode::Kind;
  RunFloors floors;
  run_reference_modes(decompose_to_primitives(fed, table), parameters,
                      {{Kind::rounded, 0}, {Kind::f64, 0}, {Kind::jittered, 1}, {Kind::jittered, 2}}, request,
                      [&](size_t tap, const std::vector<Array>& values) {
                        const auto& [key, v] = wanted[tap];
                        Evidence e;
                        e.golden = goldens.get(v);
                        if (e.golden.shape() != values[0].shape()) return;  // data decided otherwise on the way
                        e.rounded = values[0];
                        e.f64 = values[1];
                        e.jittered = {values[2], values[3]};
                        floors.emplace(key, run_floor(e));
                      });
  return floors;
}

}  // namespace pycandle
