#include "params/mapping/load.h"

#include <fmt/format.h>

#include <mutex>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "import/bundle.h"
#include "import/onnx/model.h"
#include "params/mapping/lora.h"
#include "params/type_check.h"

namespace pycandle {
namespace {

class CheckpointParameters final : public ParameterSource {
 public:
  CheckpointParameters(FittedCheckpoint fitted, std::shared_ptr<const ParameterSource> own, MadeValues made)
      : fitted_(std::move(fitted)), own_(std::move(own)), where_made_(made) {
    for (const ParameterFate& p : fitted_.ledger.parameters) fates_.emplace(p.target.name, &p);
    for (const StoredTensor& t : fitted_.checkpoint.tensors())
      if (t.storage->file) files_.insert(t.storage->file);
  }

  Array get(const Parameter& p) const override {
    const ParameterFate& fate = *fates_.at(p.name);
    return fate.fate == Fate::carried ? own_->get(p) : value_of(fate, p.type);
  }
  Array get_state(const State& s, const Type& type) const override { return value_of(*fates_.at(s.name), type); }
  void open(const Program& p) const override { own_->open(p); }
  void release(const Array& array) const override {
    {
      const std::lock_guard lock(mutex_);
      for (const auto& file : files_) file->release(array.data(), array.bytes());
    }
    own_->release(array);
  }

 private:
  Array value_of(const ParameterFate& p, const Type& type) const {
    const std::lock_guard lock(mutex_);
    if (const auto kept = made_.find(p.target.name); kept != made_.end()) return kept->second;
    const StoredTensor tensor = evaluate(p.source, fitted_.checkpoint);
    const bool can_be_mapped = tensor.storage->file && tensor.encoding == nullptr && tensor.is_dense();
    if (can_be_mapped && tensor.dtype == type.dtype) {
      Array value = read(tensor);
      check_type(value, "parameter " + p.target.name, type, tensor.storage->where);
      if (tensor.storage->file->holds(value.data())) return value;  // otherwise it is a copy: its bytes are not aligned there
    }
    Array value = where_made_ == MadeValues::in_memory ? cast(read(tensor), type.dtype) : on_disk(tensor, type.dtype);
    check_type(value, "parameter " + p.target.name, type, tensor.storage->where);
    release_pages(p);
    return made_.emplace(p.target.name, std::move(value)).first->second;
  }

  Array on_disk(const StoredTensor& tensor, DType dtype) const {
    constexpr size_t kPiece = size_t{8} << 20;
    ScratchFile scratch;
    for_each_piece(tensor, kPiece, [&](const Array& piece) {
      const Array converted = cast(piece, dtype);
      scratch.write(converted.data(), converted.bytes());
    });
    const auto file = scratch.map();
    files_.insert(file);
    return Array(dtype, tensor.shape, file->data(), file);
  }

  void release_pages(const ParameterFate& p) const {
    std::vector<std::string> used;
    p.source.collect(used);
    for (const std::string& name : used) pycandle::release(*fitted_.checkpoint.find(name));
  }

  FittedCheckpoint fitted_;
  std::shared_ptr<const ParameterSource> own_;
  std::map<std::string, const ParameterFate*> fates_;
  MadeValues where_made_;
  mutable std::mutex mutex_;
  mutable std::set<std::shared_ptr<const MappedFile>> files_;
  mutable std::map<std::string, Array> made_;
};

// A parameter or a state and where the recording says it is.
struct Place {
  std::string file, key;
};

std::map<std::string, Place> places_of(const Program& p) {
  std::map<std::string, Place> places;
  for (const Parameter& q : p.parameters) places[q.name] = {q.file, q.key};
  for (const State& s : p.states) places[s.name] = {s.file, s.key};
  return places;
}

// A bundle has what the program uses and nothing else.
Ledger bundled_ledger(const Recording& recording) {
  Ledger ledger;
  for (const Target& target : targets_of(recording)) {
    ParameterFate p{target, target.is_needed ? Fate::missing : Fate::unused, {}, target.dtype, {}};
    if (recording.bundle->table.contains(target.name)) {
      p.fate = Fate::used;
      p.source = SourceExpr::tensor(target.name);
      ledger.tensors.push_back({target.name, Fate::used, {target.name}});
    }
    ledger.parameters.push_back(std::move(p));
  }
  return ledger;
}

ParameterFate recorded_fate(const Target& target, const Place& place, const Safetensors* file) {
  ParameterFate p{target, Fate::missing, {}, target.dtype, {}};
  if (onnx::is_onnx_file(place.file)) {  // the program was read from the same file
    p.fate = Fate::used;
    p.source = SourceExpr::tensor(place.key);
    return p;
  }
  if (file == nullptr) {
    if (!target.is_needed) p.fate = Fate::unused;
    if (target.is_needed) p.note = "no weights were saved";
    return p;
  }
  const auto entry = file->entries().find(place.key);
  if (entry == file->entries().end()) {
    p.note = fmt::format("nearest in {}: {}", place.file, fmt::join(nearest_names(place.key, *file, 3), ", "));
    return p;
  }
  p.source = SourceExpr::tensor(place.key);
  p.stored = entry->second.dtype;
  p.fate = Fate::used;
  if (p.stored == target.dtype && entry->second.shape == target.shape) return p;
  p.fate = Fate::mismatched;
  p.note = fmt::format("the program needs {}{}, {} is {}{}", name_of(target.dtype), to_string(target.shape), place.key,
                       name_of(p.stored), to_string(entry->second.shape));
  return p;
}

}  // namespace

ParameterFiles files_of(const Recording& recording) {
  return recording.weights_by_reference ? ParameterFiles::anywhere : ParameterFiles::inside_folder;
}

FittedCheckpoint fit_checkpoint(const std::vector<Target>& targets, const CheckpointRequest& request) {
  FittedCheckpoint fitted;
  fitted.checkpoint = Checkpoint::open(request.checkpoint, request.reading);
  Rules rules = request.rules.empty() ? Rules() : Rules::parse(read_text(request.rules), request.rules.string());
  if (!request.adapter.empty()) rules = with_adapter(rules, targets, fitted.checkpoint, request.adapter);
  fitted.ledger = make_ledger(targets, fitted.checkpoint, rules);
  return fitted;
}

std::shared_ptr<const ParameterSource> checkpoint_parameters(FittedCheckpoint fitted, std::shared_ptr<const ParameterSource> own,
                                                             MadeValues made) {
  return std::make_shared<CheckpointParameters>(std::move(fitted), std::move(own), made);
}

Ledger recorded_ledger(const Recording& recording, const ParameterSource& source) {
  if (recording.bundle) return bundled_ledger(recording);
  const std::map<std::string, Place> places = places_of(recording.program);
  std::map<std::string, const Safetensors*> files;
  for (const auto& [name, place] : places)
    if (!place.file.empty() && !onnx::is_onnx_file(place.file)) files.emplace(place.file, source.file(place.file));
  Ledger ledger;
  std::map<std::pair<std::string, std::string>, std::vector<std::string>> users;  // file and key → parameters
  for (const Target& target : targets_of(recording)) {
    const Place& place = places.at(target.name);
    const auto file = files.find(place.file);
    ledger.parameters.push_back(recorded_fate(target, place, file == files.end() ? nullptr : file->second));
    users[{place.file, place.key}].push_back(target.name);
    if (onnx::is_onnx_file(place.file)) ledger.tensors.push_back({place.key, Fate::used, {target.name}});
  }
  for (const auto& [name, file] : files) {
    for (const auto& [key, entry] : file->entries()) {
      const auto at = users.find({name, key});
      if (at == users.end())
        ledger.tensors.push_back({key, Fate::unused, {}});
      else
        ledger.tensors.push_back({key, Fate::used, at->second});
    }
  }
  return ledger;
}

}  // namespace pycandle
