#include "verify/judging/run_floors.h"

#include <utility>

#include "verify/judging/trials.h"
#include "verify/judging/whole_run.h"

namespace pycandle {

void run_in_modes(const Program& p, const OpTable& table, const ParameterSource& parameters, const Goldens& goldens,
                  const Values& wanted, const std::vector<ReferenceMode>& modes, const OnRunEvidence& on_evidence) {
  const PerValue<bool> is_drawn = drawn_values(p, goldens);
  RunRequest request;
  request.inputs = goldens.inputs();
  Program fed = with_drawn_inputs(p, goldens, is_drawn, request.inputs);
  std::vector<Array> states = states_before(p, goldens, parameters);
  request.states = &states;
  fed.taps.clear();
  for (ValueId v : wanted) fed.taps.push_back({TapId::parse(goldens.key(v)), v, goldens.key(v), false});
  run_reference_modes(decompose_to_primitives(fed, table), parameters, modes, request,
                      [&](size_t tap, const std::vector<Array>& values) {
                        Evidence e;
                        e.golden = goldens.get(wanted[tap]);
                        if (e.golden.shape() != values[0].shape()) return;  // data decided otherwise on the way
                        for (size_t m = 0; m < modes.size(); ++m) add_mode(modes[m], values[m], e);
                        on_evidence(wanted[tap], std::move(e));
                      });
}

RunFloors run_floors(const Program& p, const OpTable& table, const ParameterSource& parameters, const Goldens& goldens,
                     Sums sums) {
  const PerValue<bool> is_drawn = drawn_values(p, goldens);
  std::map<ValueId, std::vector<std::string>> keys_of;
  Values wanted;
  for (const auto& [key, entry] : goldens.file().entries()) {
    const ValueId v = goldens.value_of(key);
    const bool is_judged = v != kNoValue && !is_drawn[v] && is_inexact(p.graph.type(v).dtype) && p.graph.values[v].node >= 0;
    if (!is_judged) continue;
    if (keys_of[v].empty()) wanted.push_back(v);
    keys_of[v].push_back(key);
  }
  RunFloors floors;
  std::vector<ReferenceMode> modes = first_modes();
  if (sums == Sums::in_any_order) {
    for (const ReferenceMode& mode : more_modes()) {
      if (mode.long_sums) modes.push_back(mode);
    }
  }
  run_in_modes(p, table, parameters, goldens, wanted, modes, [&](ValueId v, Evidence&& e) {
    const RunFloor floor = run_floor(e);
    for (const std::string& key : keys_of[v]) floors.emplace(key, floor);
  });
  return floors;
}

}  // namespace pycandle
