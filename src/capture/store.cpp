#include "capture/store.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "base/safetensors.h"
#include "import/manifest.h"
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

// One file, or the shards of a checkpoint.
class SafetensorsStore final : public ParameterStore {
 public:
  explicit SafetensorsStore(const std::vector<fs::path>& files) : where_(files.front().string()) {
    for (const fs::path& file : files) {
      files_.push_back(Safetensors::open(file));
      for (const auto& [name, entry] : files_.back().entries()) {
        if (!file_of_.emplace(name, files_.size() - 1).second)
          throw Error(ErrorCode::bad_input, fmt::format("{} is in two files", name)).found(file.string());
      }
    }
  }
  std::optional<Entry> find(const std::string& name) const override {
    const auto found = file_of_.find(name);
    if (found == file_of_.end()) return std::nullopt;
    const Safetensors::Entry& entry = files_[found->second].entries().at(name);
    return Entry{name, entry.dtype, entry.shape};
  }
  Array load(const std::string& name) const override { return files_[file_of_.at(name)].get(name); }
  std::vector<std::string> names() const override { return keys_of(file_of_); }
  std::string where() const override { return where_; }

 private:
  std::vector<Safetensors> files_;
  std::map<std::string, size_t> file_of_;
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

std::vector<fs::path> shards_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    if (entry.path().extension() == ".safetensors") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

bool has_manifest(const fs::path& folder) {
  std::error_code failed;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, failed)) {
    const std::string name = entry.path().filename().string();
    if (name == "manifest.json" || name.ends_with("_manifest.json")) return true;
  }
  return false;
}

}  // namespace

std::shared_ptr<StateCell> ParameterStore::cell(const std::string& canonical) const {
  const std::lock_guard lock(mutex_);
  std::shared_ptr<StateCell>& cell = cells_[canonical];
  if (!cell) cell = std::make_shared<StateCell>();
  return cell;
}

std::shared_ptr<const ParameterStore> open_store(const std::string& path) {
  const fs::path file(path);
  std::error_code failed;
  if (file.extension() == ".safetensors") return std::make_shared<SafetensorsStore>(std::vector<fs::path>{file});
  if (fs::is_directory(file, failed) && !has_manifest(file)) {
    const std::vector<fs::path> shards = shards_in(file);
    if (!shards.empty()) return std::make_shared<SafetensorsStore>(shards);
  }
  return std::make_shared<RecordedStore>(file);
}

std::shared_ptr<const ParameterStore> memory_store(std::map<std::string, Array> arrays) {
  return std::make_shared<MemoryStore>(std::move(arrays));
}

}  // namespace pycandle::front
