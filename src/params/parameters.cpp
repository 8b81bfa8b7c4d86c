#include "params/parameters.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <mutex>
#include <utility>

#include "base/error.h"
#include "base/hash.h"
#include "import/onnx/model.h"
#include "params/mapping/ledger.h"
#include "params/type_check.h"

namespace pycandle {

std::string ParameterId::text() const { return fmt::format("{:016x}{:016x}", high, low); }

ParameterId parameter_id(std::string_view canonical_name) {
  const Hash128 hash = hash128(canonical_name);
  return {hash.high, hash.low};
}

ParameterSource::ParameterSource() {
  static std::atomic<uint64_t> next{0};
  number_ = next++;
}

Hash128 ParameterSource::fingerprint(const Parameter& p) const { return hash128(fmt::format("source {} {}", number_, p.name)); }

void check_type(const Array& value, const std::string& what, const Type& type, const std::string& where) {
  const bool shape_agrees = static_cast<int64_t>(value.shape().size()) == type.rank() &&
                            std::equal(value.shape().begin(), value.shape().end(), type.shape.begin(),
                                       [](int64_t size, Dim dim) { return dim.maybe_number() == size; });
  if (value.dtype() == type.dtype && shape_agrees) return;
  throw Error(ErrorCode::bad_input, what + " has another type than the program says")
      .expected(type.text())
      .found(fmt::format("{}{} in {}", name_of(value.dtype()), to_string(value.shape()), where));
}

namespace {

Array checked(Array value, const char* kind, const std::string& name, const Type& type, const std::string& where) {
  check_type(value, fmt::format("{} {}", kind, name), type, where);
  return value;
}

bool leaves_folder(const std::filesystem::path& file) {
  return file.is_absolute() || std::any_of(file.begin(), file.end(), [](const auto& part) { return part == ".."; });
}

std::filesystem::path path_inside(const std::filesystem::path& folder, const std::string& file, ParameterFiles files) {
  if (files == ParameterFiles::inside_folder && leaves_folder(file)) {
    throw Error(ErrorCode::bad_input, "a weight file may not lie outside the manifest's folder")
        .found(file)
        .hint("record with --weights save, or with --weights ref to refer to files elsewhere");
  }
  return folder / file;
}

class FileParameters final : public ParameterSource {
 public:
  // Absolute, since the process may go to another folder before the first file is opened.
  FileParameters(const std::filesystem::path& folder, ParameterFiles files)
      : folder_(folder.empty() ? folder : std::filesystem::absolute(folder)), files_(files) {}

  Array get(const Parameter& p) const override { return read("parameter", p.name, p.file, p.key, p.type); }
  Array get_state(const State& s, const Type& type) const override { return read("state", s.name, s.file, s.key, type); }
  Hash128 fingerprint(const Parameter& p) const override {
    if (p.file.empty()) return ParameterSource::fingerprint(p);
    return hash128(fmt::format("file {} {} {}", stamp(p.file), parameter_id(p.key).text(), p.type.text()));
  }
  void open(const Program& p) const override {
    for (const Parameter& parameter : p.parameters) {
      if (parameter.value != kNoValue && !parameter.file.empty()) open_file(parameter.file);
    }
    for (const State& state : p.states) {
      if (!state.file.empty()) open_file(state.file);
    }
  }
  const Safetensors* file(const std::string& name) const override { return onnx::is_onnx_file(name) ? nullptr : &opened(name); }
  void release(const Array& array) const override {
    const std::lock_guard lock(mutex_);
    for (const auto& [name, tensors] : open_) tensors->file()->release(array.data(), array.bytes());
  }

 private:
  Array read(const char* kind, const std::string& name, const std::string& file, const std::string& key, const Type& type) const {
    if (file.empty()) {
      throw Error(ErrorCode::bad_input, fmt::format("{} {} has no value: no weights were saved", kind, name))
          .expected(type.text())
          .hint("record the model with --weights save");
    }
    if (onnx::is_onnx_file(file)) return read_onnx(kind, name, file, key, type);
    const Safetensors& tensors = opened(file);
    if (!tensors.contains(key)) {
      throw Error(ErrorCode::bad_input, fmt::format("{} {} is not in its file", kind, name))
          .expected(fmt::format("{} under the name {}", type.text(), key))
          .found(fmt::format("{} other tensors in {}, nearest: {}", tensors.entries().size(), file,
                             fmt::join(nearest_names(key, tensors, 3), ", ")));
    }
    return checked(tensors.get(key), kind, name, type, file);
  }

  void open_file(const std::string& file) const {
    if (onnx::is_onnx_file(file))
      opened_model(file);
    else
      opened(file);
  }
  // Of an ONNX file too: data beside it is not looked at.
  std::string stamp(const std::string& file) const {
    return onnx::is_onnx_file(file) ? opened_model(file).stamp : opened(file).file()->stamp();
  }

  Array read_onnx(const char* kind, const std::string& name, const std::string& file, const std::string& key,
                  const Type& type) const {
    auto value = opened_model(file).value(key);
    if (!value) throw Error(ErrorCode::bad_input, fmt::format("{} {} is not in {}", kind, name, file)).expected(type.text());
    return checked(*std::move(value), kind, name, type, file);
  }

  const onnx::Model& opened_model(const std::string& file) const {
    const std::lock_guard lock(mutex_);
    auto found = models_.find(file);
    if (found == models_.end()) found = models_.emplace(file, onnx::open(path_inside(folder_, file, files_))).first;
    return *found->second;
  }

  const Safetensors& opened(const std::string& file) const {
    const std::lock_guard lock(mutex_);
    auto found = open_.find(file);
    if (found == open_.end())
      found = open_.emplace(file, std::make_unique<const Safetensors>(open_weight_file(folder_, file, files_))).first;
    return *found->second;
  }

  std::filesystem::path folder_;
  ParameterFiles files_;
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::shared_ptr<const onnx::Model>> models_;
  mutable std::map<std::string, std::unique_ptr<const Safetensors>> open_;  // addresses stay while others are added
};

class MemoryParameters final : public ParameterSource {
 public:
  explicit MemoryParameters(std::map<std::string, Array> arrays) : arrays_(std::move(arrays)) {}

  Array get(const Parameter& p) const override { return read("parameter", p.name, p.type); }
  Array get_state(const State& s, const Type& type) const override { return read("state", s.name, type); }

 private:
  Array read(const char* kind, const std::string& name, const Type& type) const {
    const auto found = arrays_.find(name);
    if (found == arrays_.end()) {
      throw Error(ErrorCode::bad_input, fmt::format("{} {} has no value", kind, name)).expected(type.text());
    }
    return checked(found->second, kind, name, type, "memory");
  }

  std::map<std::string, Array> arrays_;
};

class StreamedParameters final : public ParameterSource {
  struct Range {
    const void* data;
    size_t bytes;
  };

 public:
  StreamedParameters(std::shared_ptr<const ParameterSource> source, size_t budget)
      : source_(std::move(source)), budget_(budget) {}

  Array get(const Parameter& p) const override { return used(source_->get(p)); }
  Array get_state(const State& s, const Type& type) const override { return source_->get_state(s, type); }
  Hash128 fingerprint(const Parameter& p) const override { return source_->fingerprint(p); }
  void open(const Program& p) const override { source_->open(p); }
  const Safetensors* file(const std::string& name) const override { return source_->file(name); }
  void release(const Array& array) const override { source_->release(array); }
  void use(const Array& array) const override { used(array); }
  bool is_streamed() const override { return true; }

 private:
  Array used(Array array) const {
    const std::lock_guard lock(mutex_);
    const auto known = places_.find(array.data());
    if (known != places_.end()) {
      recent_.splice(recent_.begin(), recent_, known->second);
    } else {
      recent_.push_front(array);
      places_[array.data()] = recent_.begin();
      bytes_ += array.bytes();
    }
    while (bytes_ > budget_ && recent_.size() > 1) {
      const Array& oldest = recent_.back();
      source_->release(oldest);
      bytes_ -= oldest.bytes();
      places_.erase(oldest.data());
      recent_.pop_back();
    }
    read_ahead(array);
    return array;
  }

  // What was used after this array before is likely used after it again: a program reads its weights in one order. The disk
  // brings those that fit beside what is in memory now while kernels compute.
  void read_ahead(const Array& array) const {
    if (last_ != nullptr && last_ != array.data()) followers_.insert_or_assign(last_, Range{array.data(), array.bytes()});
    last_ = array.data();
    constexpr int kMost = 16;
    size_t bytes = bytes_;
    auto next = followers_.find(array.data());
    for (int i = 0; i < kMost && next != followers_.end(); ++i) {
      const Range range = next->second;
      bytes += range.bytes;
      if (bytes > budget_ || range.data == array.data()) return;
      if (!places_.contains(range.data)) will_need(range);
      next = followers_.find(range.data);
    }
  }

  // Advice alone: memory that is not a mapped file, or is gone, is left as it is.
  static void will_need(Range range) {
    const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)), from = reinterpret_cast<uintptr_t>(range.data);
    const uintptr_t begin = from / page * page;
    ::madvise(reinterpret_cast<void*>(begin), from + range.bytes - begin, MADV_WILLNEED);
  }

  std::shared_ptr<const ParameterSource> source_;
  size_t budget_;
  mutable std::mutex mutex_;
  mutable std::list<Array> recent_;  // the last one used in front
  mutable std::map<const void*, std::list<Array>::iterator> places_;
  mutable size_t bytes_ = 0;
  mutable std::map<const void*, Range> followers_;  // by the data of the array before
  mutable const void* last_ = nullptr;
};

}  // namespace

Safetensors open_weight_file(const std::filesystem::path& folder, const std::string& file, ParameterFiles files) {
  return Safetensors::open(path_inside(folder, file, files));
}

std::shared_ptr<const ParameterSource> streamed_parameters(std::shared_ptr<const ParameterSource> source, size_t budget) {
  return std::make_shared<StreamedParameters>(std::move(source), budget);
}

std::shared_ptr<const ParameterSource> file_parameters(const std::filesystem::path& folder, ParameterFiles files) {
  return std::make_shared<FileParameters>(folder, files);
}

std::shared_ptr<const ParameterSource> memory_parameters(std::map<std::string, Array> arrays) {
  return std::make_shared<MemoryParameters>(std::move(arrays));
}

}  // namespace pycandle
