#include "backends/reference/reference.h"

#include <utility>

#include "backends/reference/walker.h"
#include "backends/step_log.h"

namespace pycandle {
namespace {

class ReferenceExecutable final : public Executable {
 public:
  ReferenceExecutable(Program decomposed, std::shared_ptr<const ParameterSource> parameters)
      : plan_(std::move(decomposed)), parameters_(std::move(parameters)) {}

  std::vector<Array> run(const RunRequest& given) const override {
    RunRequest request = given;
    if (StepLog* const log = active_step_log) {
      request.on_step = [&given, log](const StepTime& step) {
        if (given.on_step) given.on_step(step);
        log->add(step);
      };
    }
    Walker walker(plan_, *parameters_, {ReferenceMode{}}, request);
    walker.run();
    std::vector<Array> outputs;
    outputs.reserve(plan_.program.outputs.size());
    for (const Output& o : plan_.program.outputs) outputs.push_back(walker.value(0, o.value));
    if (request.states) {
      for (size_t i = 0; i < plan_.program.states.size(); ++i) {
        const ValueId updated = plan_.program.states[i].updated;
        if (updated != kNoValue) (*request.states)[i] = walker.value(0, updated);
      }
    }
    return outputs;
  }

 private:
  WalkPlan plan_;
  std::shared_ptr<const ParameterSource> parameters_;
};

class ReferenceBackend final : public Backend {
 public:
  std::string name() const override { return "reference"; }
  bool claims(const Call&) const override { return false; }
  std::unique_ptr<Executable> compile(const Program& p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                                      const PipelineOptions& options, std::vector<PassTiming>* timings) const override {
    const auto claimed = [](const Call&) { return false; };
    return std::make_unique<ReferenceExecutable>(run_backend_pipeline(p, table, claimed, options, timings),
                                                 std::move(parameters));
  }
};

}  // namespace

const Backend& reference_backend() {
  static const ReferenceBackend backend;
  return backend;
}

std::vector<ReferenceRun> run_reference_modes(const Program& decomposed, const ParameterSource& parameters,
                                              const std::vector<ReferenceMode>& modes, const RunRequest& request,
                                              const OnTapOfModes& on_tap) {
  const WalkPlan plan(decomposed);
  Walker walker(plan, parameters, modes, request, on_tap);
  walker.run();
  std::vector<ReferenceRun> runs(modes.size());
  for (size_t lane = 0; lane < modes.size(); ++lane) {
    for (const Output& o : decomposed.outputs) runs[lane].outputs.push_back(walker.value(lane, o.value));
  }
  return runs;
}

Program decompose_to_primitives(const Program& p, const OpTable& table) {
  return run_backend_pipeline(p, table, [](const Call&) { return false; });
}

}  // namespace pycandle
