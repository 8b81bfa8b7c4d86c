#include "pycandle/recorded.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/core/catalogue.h"
#include "runtime/model.h"
#include "verify/judging/metrics.h"
#include "verify/judging/run_judge.h"

namespace pycandle::front {

struct Recorded::State {
  Model model;
};

namespace {

CheckResult checked(RunJudge& judge, size_t i, const Recorded::Tensors& given) {
  CheckResult result;
  result.layer = judge.names()[i];
  const auto found = given.find(result.layer);
  if (found == given.end()) {
    result.why = result.layer + " is not there";
    return result;
  }
  const Judgement judgement = judge.judge(i, found->second, result.layer);
  result.passed = judgement.passed;
  result.error = judgement.scale > 0 ? judgement.error_rms / judgement.scale : judgement.error_rms;
  result.tolerance = kRmsFactor * (judgement.scale > 0 ? judgement.floor_rms / judgement.scale : judgement.floor_rms);
  result.max_diff = judgement.error_max;
  result.mse = judgement.error_rms * judgement.error_rms;
  result.why = judgement.why;
  if (const auto unstable = instability(judgement, found->second.dtype()); result.passed && unstable && result.error > 0) {
    result.unstable = true;
    result.why = fmt::format("{} is unstable: {}", result.layer, *unstable);
  }
  return result;
}

std::vector<CheckResult> check_all(const Model& model, const Recorded::Tensors& inputs, const Recorded::Tensors& given,
                                   std::vector<Array> states) {
  RunJudge judge(model.program(), catalogue(), model.parameters(), ordered_inputs(model.program(), inputs), std::move(states));
  std::vector<CheckResult> results;
  for (size_t i = 0; i < judge.names().size(); ++i) results.push_back(checked(judge, i, given));
  return results;
}

}  // namespace

Recorded Recorded::load(const std::string& path, const LoadOptions& options) {
  pycandle::LoadOptions load;
  load.backend = options.backend;
  load.pipeline.threads = options.threads;
  load.pipeline.pack_weights = options.memory == Memory::fast;
  load.pipeline.weights = options.weights;
  load.pipeline.overrides = options.overrides;
  load.check_weights = options.check_weights;
  if (!options.checkpoint.empty())
    load.checkpoint = CheckpointRequest{options.checkpoint, options.rules, options.lora, {}, false};
  Recorded recorded;
  recorded.state_ = std::make_shared<State>(State{open_model(path, load)});
  return recorded;
}

std::string Recorded::ledger() const { return to_json(state_->model.ledger()); }

std::vector<Symbol> Recorded::symbols() const {
  std::vector<Symbol> found;
  for (const pycandle::Symbol& s : state_->model.program().symbols) {
    if (s.axis >= 0) found.push_back({s.name, s.range.min, s.range.max, s.example});  // the others are decided by data
  }
  return found;
}

Recorded::Tensors Recorded::random_inputs(uint64_t seed, const std::map<std::string, int64_t>& sizes) const {
  Bindings bound;
  for (const auto& [name, size] : sizes) bound[name] = size;
  return pycandle::random_inputs(state_->model.program(), seed, bound);
}

Recorded::Tensors Recorded::run(const Tensors& inputs) const { return state_->model.forward(inputs); }

Recorded::Tensors Recorded::run(const Tensors& inputs, Tensors& states) const { return state_->model.forward(inputs, states); }

std::vector<CheckResult> Recorded::check(const Tensors& inputs, const Tensors& outputs) const {
  std::vector<CheckResult> results = check_all(state_->model, inputs, outputs, {});
  results.resize(std::min(results.size(), state_->model.program().outputs.size()));  // without what the states became
  return results;
}

std::vector<CheckResult> Recorded::check(const Tensors& inputs, const Tensors& outputs, const Tensors& states_before,
                                         const Tensors& states_after) const {
  std::vector<Array> states;
  for (const pycandle::State& state : state_->model.program().states) states.push_back(states_before.at(state.name));
  Tensors given = outputs;
  for (const auto& [name, array] : states_after) given.emplace("updated:" + name, array);
  return check_all(state_->model, inputs, given, std::move(states));
}

Recorded::Tensors Recorded::states() const { return state_->model.states(); }
void Recorded::set_states(const Tensors& states) const { state_->model.set_states(states); }
void Recorded::reset() const { state_->model.reset(); }
void Recorded::save_states(const std::string& path) const { state_->model.save_states(path); }
void Recorded::load_states(const std::string& path) const { state_->model.load_states(path); }

Recorded Recorded::session() const {
  Recorded recorded;
  recorded.state_ = std::make_shared<State>(State{state_->model.session()});
  return recorded;
}

}  // namespace pycandle::front
