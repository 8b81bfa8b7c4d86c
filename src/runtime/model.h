// A recorded model, ready to run.
//
//   Model m = load_model("traces/gpt2_manifest.json");
//   auto out = m.forward({{"input_ids", ids}});     // by the names in the manifest
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "import/importer.h"
#include "passes/pipeline.h"
#include "runtime/backends.h"

namespace pycandle {

struct LoadOptions {
  std::string backend = "reference";
  PipelineOptions pipeline;
  const OpTable* table = nullptr;                                     // null: the catalogue
};

class Model {
 public:
  using Tensors = std::map<std::string, Array>;
  Tensors forward(const Tensors& inputs) const;                       // outputs by name
  // Every tap by id, as soon as its value exists, then the outputs.
  Tensors trace(const Tensors& inputs, const std::function<void(const Tap&, const Array&)>& on_tap) const;

  // The same recording with the same opened weights on another backend: nothing is read from the disk again.
  Model on(const LoadOptions&) const;

  const Recording& recording() const { return *recording_; }          // in program form
  const Program& program() const { return recording_->program; }
  const std::shared_ptr<const ParameterSource>& parameters() const { return parameters_; }
  const std::string& backend() const { return backend_; }
  const std::vector<PassTiming>& timings() const { return timings_; }
  const Executable& executable() const { return *executable_; }

 private:
  Tensors run(const Tensors& inputs, std::function<void(size_t, const Array&)> on_tap) const;
  friend Model load_recording(Recording, const LoadOptions&);
  std::shared_ptr<const Recording> recording_;
  std::shared_ptr<const ParameterSource> parameters_;
  std::shared_ptr<const Executable> executable_;
  std::string backend_;
  std::vector<PassTiming> timings_;
};

// path: a manifest, the folder of one, or a bundle.
Model load_model(const std::filesystem::path&, const LoadOptions& = {});
// A recording as the importer made it; its folder says where the weights are.
Model load_recording(Recording, const LoadOptions& = {});

// Where a recording's weights are.
std::shared_ptr<const ParameterSource> recorded_parameters(const Recording&);

// Deterministic random inputs for the program: floats standard normal, integers within the recorded range, at the
// recorded sizes or those in `sizes` (symbol → size).
Model::Tensors random_inputs(const Program&, uint64_t seed, const Bindings& sizes = {});
// The inputs in the order of Program::inputs; unknown, missing or mistyped ones are one Error that lists the names.
std::vector<Array> ordered_inputs(const Program&, const Model::Tensors&);

}  // namespace pycandle
