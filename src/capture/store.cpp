#include "capture/store.h"

#include <fmt/format.h>

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "import/importer.h"
#include "import/manifest.h"
#include "params/checkpoints/checkpoint.h"
#include "params/parameters.h"
#include "runtime/model.h"

namespace pycandle::front {
namespace {

namespace fs = std::filesystem;

template <class T> std::vector<std::string> keys_of(const std::map<std::string, T>& map) {
  std::vector<std::string> keys;
  keys.reserve(map.size());
  for (const auto& [key, value] : map) keys.push_back(key);
  return keys;
}

class MemoryStore final : public ParameterStore {
 public:
  explicit MemoryStore(std::map<std::string, Array> arrays) : arrays_(std::move(arrays)) {}
  std::optional<Entry> find(const std::string& name) const override {
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) return std::nullopt;
    return Entry{name, found->second.dtype(), found->second.shape()};
  }
  Array load(const std::string& name) const override { return arrays_.at(name); }
  std::vector<std::string> names() const override { return keys_of(arrays_); }
  std::string where() const override { return "memory"; }

 private:
  std::map<std::string, Array> arrays_;
};

// Every format that has a reader; values become those of a tensor here when they are asked for.
class CheckpointStore final : public ParameterStore {
 public:
  explicit CheckpointStore(const fs::path& path) : checkpoint_(Checkpoint::open(path)), where_(path.string()) {}
  std::optional<Entry> find(const std::string& name) const override {
    const StoredTensor* const tensor = checkpoint_.find(name);
    if (tensor == nullptr) return std::nullopt;
    return Entry{name, tensor->dtype, tensor->shape};
  }
  Array load(const std::string& name) const override { return read(*checkpoint_.find(name)); }
  std::vector<std::string> names() const override {
    std::vector<std::string> names;
    for (const StoredTensor& t : checkpoint_.tensors()) names.push_back(t.name);
    return names;
  }
  std::string where() const override { return where_; }

 private:
  Checkpoint checkpoint_;
  std::string where_;
};

// The parameters that a manifest lists; tied ones under every name they have.
class RecordedStore final : public ParameterStore {
 public:
  explicit RecordedStore(const fs::path& path) : where_(path.string()) {
    const fs::path manifest = find_manifest(path);
    Manifest read = read_manifest(read_text(manifest), "manifest " + manifest.filename().string());
    Recording& recording = read.recording;
    recording.folder = manifest.has_parent_path() ? manifest.parent_path() : ".";
    source_ = recorded_parameters(recording);
    parameters_ = std::move(recording.program.parameters);
    for (const pycandle::State& state : recording.program.states) add_state(state, read.graph);
    for (size_t i = 0; i < parameters_.size(); ++i) {
      place_.emplace(parameters_[i].name, i);
      for (const std::string& alias : parameters_[i].aliases) place_.emplace(alias, i);
    }
  }
  std::optional<Entry> find(const std::string& name) const override {
    const auto found = place_.find(name);
    if (found == place_.end()) return std::nullopt;
    const Parameter& p = parameters_[found->second];
    return Entry{p.name, p.type.dtype, evaluate(p.type.shape, {})};
  }
  Array load(const std::string& name) const override { return source_->get(parameters_[place_.at(name)]); }
  std::vector<std::string> names() const override { return keys_of(place_); }
  std::string where() const override { return where_; }

 private:
  // What it is before the first run, under its name as a parameter is.
  void add_state(const pycandle::State& state, const RecordedGraph& graph) {
    Parameter parameter;
    parameter.name = state.name;
    parameter.kind = Parameter::Kind::buffer;
    parameter.file = state.file;
    parameter.key = state.key;
    for (const RecordedValue& input : graph.inputs) {
      if (input.id == state.value) parameter.type = input.type;
    }
    parameters_.push_back(std::move(parameter));
  }

  std::vector<Parameter> parameters_;
  std::map<std::string, size_t> place_;
  std::shared_ptr<const ParameterSource> source_;
  std::string where_;
};

}  // namespace

std::shared_ptr<StateCell> ParameterStore::cell(const std::string& canonical) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<StateCell>& cell = cells_[canonical];
  if (!cell) cell = std::make_shared<StateCell>();
  return cell;
}

std::shared_ptr<const ParameterStore> open_store(const std::string& path) {
  if (is_recording(path)) return std::make_shared<RecordedStore>(path);
  return std::make_shared<CheckpointStore>(path);
}

std::shared_ptr<const ParameterStore> memory_store(std::map<std::string, Array> arrays) {
  return std::make_shared<MemoryStore>(std::move(arrays));
}

}  // namespace pycandle::front
