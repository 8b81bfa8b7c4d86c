#include "verify/judging/run_judge.h"

#include <fmt/format.h>

#include <utility>

#include "verify/judging/goldens.h"
#include "verify/judging/trials.h"

namespace pycandle {

RunJudge::RunJudge(const Program& p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                   std::vector<Array> inputs, std::vector<Array> states)
    : parameters_(std::move(parameters)), states_(std::move(states)) {
  Program all = p;
  all.taps.clear();
  for (const State& state : p.states) {
    if (state.updated != kNoValue) all.outputs.push_back({key_after(state), state.updated});
  }
  all.bind_outputs();
  for (const Output& output : all.outputs) names_.push_back(output.name);
  decomposed_ = decompose_to_primitives(all, table);
  request_.inputs = std::move(inputs);
  evidence_.resize(names_.size());
  run(first_modes());
}

void RunJudge::run(const std::vector<ReferenceMode>& modes) {
  std::vector<Array> states = states_;
  if (!states.empty()) request_.states = &states;
  const std::vector<ReferenceRun> runs = run_reference_modes(decomposed_, *parameters_, modes, request_);
  request_.states = nullptr;
  for (size_t m = 0; m < modes.size(); ++m) {
    for (size_t i = 0; i < evidence_.size(); ++i) add_mode(modes[m], runs[m].outputs.at(i), evidence_[i]);
  }
}

Judgement RunJudge::judge(size_t result, const Array& ours, const std::string& whose) {
  Evidence& e = evidence_[result];
  const Array& expected = e.rounded;
  const bool is_other_kind = is_complex(ours.dtype()) != is_complex(expected.dtype()) ||
                             is_inexact(ours.dtype()) != is_inexact(expected.dtype());
  if (ours.shape() != expected.shape() || is_other_kind) {
    Judgement j;
    j.passed = false;
    j.why = fmt::format("{}'s value is {}{} where the program gives {}{}", whose, name_of(ours.dtype()), to_string(ours.shape()),
                        name_of(expected.dtype()), to_string(expected.shape()));
    return j;
  }
  const Array value = ours.dtype() == expected.dtype() ? ours : cast(ours, expected.dtype());
  if (!is_inexact(expected.dtype())) return judge_exactly(expected, value, "the program");
  e.golden = value;
  e.whose = whose;
  const Judgement first = judge_program(e);
  if (first.passed || has_all_runs_ || first.error_rms > kNearMiss * first.floor_rms) return first;
  run(more_modes());
  has_all_runs_ = true;
  return judge_program(e);
}

}  // namespace pycandle
