#include "runtime/model.h"

#include <utility>

#include "base/error.h"
#include "import/bundle.h"
#include "ops/core/catalogue.h"
#include "params/bundle_parameters.h"
#include "params/checksums.h"
#include "runtime/eager.h"
#include "runtime/named_inputs.h"

namespace pycandle {
namespace {

const OpTable& table_of(const LoadOptions& options) { return options.table ? *options.table : catalogue(); }

}  // namespace

Model open_model(const std::filesystem::path& path, const LoadOptions& options) {
  find_backend(options.backend);  // a wrong name is said before anything is read
  return load_recording(import_manifest(path, table_of(options)), options);
}

Model load_recording(Recording imported, const LoadOptions& options) {
  const Backend& backend = find_backend(options.backend);
  const OpTable& table = table_of(options);
  auto recording = std::make_shared<Recording>(std::move(imported));
  Model model;
  LoadedWeights weights = load_weights(*recording, options.checkpoint, options.parameter_budget);
  model.parameters_ = std::move(weights.parameters);
  model.ledger_ = std::move(weights.ledger);
  model.parameters_->open(recording->program);
  if (options.check_weights) refuse_damaged_weights(*recording, *model.parameters_);
  const PipelineOptions pipeline = pipeline_for(*recording, options);
  if (!recording->is_program_form || !pipeline.disabled.empty() || !pipeline.dump_dir.empty())
    recording->program = run_program_pipeline(std::move(recording->program), table, pipeline, &model.timings_);
  recording->is_program_form = true;
  model.executable_ = compile_as_wanted(backend, recording->program, table, model.parameters_, pipeline, &model.timings_);
  model.options_ = options;
  model.backend_ = backend.name();
  model.recording_ = std::move(recording);
  return model;
}

PipelineOptions pipeline_for(const Recording& recording, const LoadOptions& options) {
  PipelineOptions pipeline = options.pipeline;
  if (recording.bundle) pipeline.weights = std::max(pipeline.weights, recording.bundle->weights);
  return pipeline;
}

Ledger Model::ledger() const { return ledger_ ? *ledger_ : recorded_ledger(*recording_, *parameters_); }

Model Model::on(const LoadOptions& options) const {
  const Backend& backend = find_backend(options.backend);
  Model model = *this;
  model.timings_.clear();
  model.executable_ = compile_as_wanted(backend, program(), table_of(options), parameters_, pipeline_for(recording(), options),
                                        &model.timings_);
  model.options_ = options;
  model.backend_ = backend.name();
  return model;
}

std::shared_ptr<const ParameterSource> recorded_parameters(const Recording& recording, std::optional<size_t> budget) {
  auto files = recording.bundle ? bundle_parameters(recording.bundle) : file_parameters(recording.folder, files_of(recording));
  return budget ? streamed_parameters(std::move(files), *budget) : files;
}

LoadedWeights load_weights(const Recording& recording, const std::optional<CheckpointRequest>& checkpoint,
                           std::optional<size_t> budget) {
  if (!checkpoint) return {recorded_parameters(recording, budget), nullptr, {}};
  FittedCheckpoint fitted = fit_checkpoint(targets_of(recording), *checkpoint);
  refuse_incomplete(fitted.ledger, fitted.checkpoint, checkpoint->strict);
  LoadedWeights weights{nullptr, std::make_shared<const Ledger>(fitted.ledger), fitted.checkpoint.files()};
  if (!checkpoint->rules.empty()) weights.files.push_back(checkpoint->rules);
  weights.parameters = checkpoint_parameters(std::move(fitted), recorded_parameters(recording),
                                             budget ? MadeValues::on_disk : MadeValues::in_memory);
  if (budget) weights.parameters = streamed_parameters(std::move(weights.parameters), *budget);
  return weights;
}

Model::Tensors Model::forward(const Tensors& inputs) const { return run(inputs, nullptr); }

Model::Tensors Model::trace(const Tensors& inputs, const std::function<void(const Tap&, const Array&)>& on_tap) const {
  return run(inputs, [&](size_t tap, const Array& value) { on_tap(program().taps[tap], value); });
}

Model::Tensors Model::forward(const Tensors& inputs, Tensors& states) const {
  check_states(state_types(program()), states, Expected::every, "memory");
  std::vector<Array> ordered;
  for (const State& s : program().states) ordered.push_back(states.at(s.name));
  RunRequest request;
  request.inputs = ordered_inputs(program(), inputs);
  Tensors outputs = named(run_with_states(*executable_, std::move(request), ordered));
  for (size_t i = 0; i < ordered.size(); ++i) states.at(program().states[i].name) = std::move(ordered[i]);
  return outputs;
}

Model::Tensors Model::run(const Tensors& inputs, std::function<void(size_t, const Array&)> on_tap) const {
  RunRequest request;
  request.inputs = ordered_inputs(program(), inputs);
  request.on_tap = std::move(on_tap);
  if (program().states.empty()) return named(executable_->run(request));
  const std::lock_guard lock(states_->mutex);
  std::vector<Array> states = states_now();
  std::vector<Array> outputs = run_with_states(*executable_, std::move(request), states);
  for (size_t i = 0; i < states.size(); ++i) states_->values.insert_or_assign(program().states[i].name, std::move(states[i]));
  return named(std::move(outputs));
}

Model::Tensors Model::named(std::vector<Array> outputs) const {
  Tensors tensors;
  for (size_t i = 0; i < outputs.size(); ++i) tensors[program().outputs[i].name] = std::move(outputs[i]);
  return tensors;
}

std::vector<Array> Model::states_now() const {
  std::vector<Array> states;
  for (const State& s : program().states) {
    const auto changed = states_->values.find(s.name);
    states.push_back(changed != states_->values.end() ? changed->second
                                                      : parameters_->get_state(s, program().graph.type(s.value)));
  }
  return states;
}

Model::Tensors Model::states() const {
  const std::lock_guard lock(states_->mutex);
  const std::vector<Array> now = states_now();
  Tensors tensors;
  for (size_t i = 0; i < now.size(); ++i) tensors.emplace(program().states[i].name, copy_of(now[i]));
  return tensors;
}

void Model::set_states(const Tensors& states, Expected expected) const {
  check_states(state_types(program()), states, expected, "memory");
  Tensors copies = copies_of(states);
  const std::lock_guard lock(states_->mutex);
  copies.merge(states_->values);
  states_->values = std::move(copies);
}

void Model::reset() const {
  const std::lock_guard lock(states_->mutex);
  states_->values.clear();
}

void Model::save_states(const std::filesystem::path& path) const { pycandle::save_states(path, states()); }

void Model::load_states(const std::filesystem::path& path) const {
  set_states(pycandle::load_states(path, state_types(program())));
}

Model Model::session() const {
  Model model = *this;
  model.states_ = std::make_shared<CallerStates>();
  return model;
}

Model Model::with_states_of(const Model& other) const {
  Model model = *this;
  model.states_ = other.states_;
  return model;
}

std::vector<Array> ordered_inputs(const Program& p, const Model::Tensors& tensors) {
  std::vector<WantedInput> wanted;
  for (const Input& input : p.inputs) wanted.push_back({input.name, p.graph.type(input.value).text()});
  return in_order(wanted, tensors);
}

}  // namespace pycandle
