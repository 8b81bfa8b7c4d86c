// A recorded model, ready to run.
//
//   Model m = open_model("traces/gpt2_manifest.json");
//   auto out = m.forward({{"input_ids", ids}});     // by the names in the manifest
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/importer.h"
#include "params/mapping/load.h"
#include "passes/pipeline.h"
#include "runtime/backends.h"
#include "runtime/states.h"

namespace pycandle {

struct LoadOptions {
  std::string backend = "reference";
  PipelineOptions pipeline;
  const OpTable* table = nullptr;                                     // null: the catalogue
  bool check_weights = false;                                         // read all of them, and refuse damaged ones
  std::optional<size_t> parameter_budget = {};                             // most bytes of weights in memory
  std::optional<CheckpointRequest> checkpoint = {};                        // weights from here, not from the recording's files
};

// The options of the backend: a bundle's weights are read as narrow as it keeps them, or narrower.
PipelineOptions pipeline_for(const Recording&, const LoadOptions&);

// A handle: copies share the states. Safe to use from several threads; calls of a model with states take turns.
class Model {
 public:
  using Tensors = std::map<std::string, Array>;
  // Outputs by name. The states that the call changes stay changed.
  Tensors forward(const Tensors& inputs) const;
  Tensors forward(const Tensors& inputs, Tensors& states) const;      // with these states, which the call changes
  // Every tap by id, as soon as its value exists, then the outputs.
  Tensors trace(const Tensors& inputs, const std::function<void(const Tap&, const Array&)>& on_tap) const;

  Tensors states() const;                                             // as they are now, by name
  void set_states(const Tensors&, Expected = Expected::some) const;
  void reset() const;                                                 // as recorded
  void save_states(const std::filesystem::path&) const;
  void load_states(const std::filesystem::path&) const;
  Model session() const;                                              // with states of its own, as recorded
  Model with_states_of(const Model&) const;

  // The same recording with the same opened weights and states on another backend: nothing is read from the disk again.
  Model on(const LoadOptions&) const;

  const Recording& recording() const { return *recording_; }          // in program form
  const Program& program() const { return recording_->program; }
  const std::shared_ptr<const ParameterSource>& parameters() const { return parameters_; }
  Ledger ledger() const;                                              // what became of each tensor and parameter
  const std::string& backend() const { return backend_; }
  const LoadOptions& options() const { return options_; }             // as it was opened
  const std::vector<PassTiming>& timings() const { return timings_; }
  const Executable& executable() const { return *executable_; }

 private:
  Tensors run(const Tensors& inputs, std::function<void(size_t, const Array&)> on_tap) const;
  Tensors named(std::vector<Array> outputs) const;
  std::vector<Array> states_now() const;                              // in the order of Program::states; states_ is locked
  friend Model load_recording(Recording, const LoadOptions&);
  std::shared_ptr<const Recording> recording_;
  std::shared_ptr<const ParameterSource> parameters_;
  std::shared_ptr<const Ledger> ledger_;                              // of a checkpoint
  std::shared_ptr<const Executable> executable_;
  std::shared_ptr<CallerStates> states_ = std::make_shared<CallerStates>();
  std::string backend_;
  LoadOptions options_;
  std::vector<PassTiming> timings_;
};

// path: a manifest, the folder of one, or a bundle.
Model open_model(const std::filesystem::path&, const LoadOptions& = {});
// A recording as the importer made it; its folder says where the weights are.
Model load_recording(Recording, const LoadOptions& = {});

// Where a recording's weights are. budget: most bytes of them that are in memory at a time (streamed_parameters).
std::shared_ptr<const ParameterSource> recorded_parameters(const Recording&, std::optional<size_t> budget = {});

struct LoadedWeights {
  std::shared_ptr<const ParameterSource> parameters;
  std::shared_ptr<const Ledger> ledger;                               // of a checkpoint; null: the recording's own weights
  std::vector<std::filesystem::path> files;                           // of a checkpoint, its adapter and its rules
};
// The recording's own weights, or those of a checkpoint, which must give it all that it needs.
LoadedWeights load_weights(const Recording&, const std::optional<CheckpointRequest>&, std::optional<size_t> budget = {});

// Deterministic random inputs for the program: floats standard normal, integers within the recorded range, at the
// recorded sizes or those in `sizes` (symbol → size).
Model::Tensors random_inputs(const Program&, uint64_t seed, const Bindings& sizes = {});
// The inputs in the order of Program::inputs; unknown, missing or mistyped ones are one Error that lists the names.
std::vector<Array> ordered_inputs(const Program&, const Model::Tensors&);

}  // namespace pycandle
