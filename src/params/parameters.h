// Where parameter values come from: lazily, out of mapped files.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "base/array.h"
#include "base/hash.h"
#include "base/safetensors.h"
#include "ir/graph.h"

namespace pycandle {

// Stable 128-bit id of a parameter: the hash of its canonical name.
struct ParameterId {
  uint64_t high = 0, low = 0;
  friend bool operator==(const ParameterId&, const ParameterId&) = default;
  std::string text() const;  // 32 hex digits
};
ParameterId parameter_id(std::string_view canonical_name);

class ParameterSource {
 public:
  ParameterSource();
  virtual ~ParameterSource() = default;
  ParameterSource(const ParameterSource&) = delete;
  ParameterSource& operator=(const ParameterSource&) = delete;
  // The value under its canonical name; throws bad_input with name, file, expected and found type.
  virtual Array get(const Parameter&) const = 0;
  virtual Array get_state(const State&, const Type&) const = 0;
  // Names the values: parameters with equal fingerprints have equal values. Files are named by their stamp, so nothing is
  // read for it; any other source has fingerprints of its own.
  virtual Hash128 fingerprint(const Parameter&) const;
  // Opens (maps) the files of all that the program uses now, so that files put in their place later are not mixed in.
  virtual void open(const Program&) const {}
  // A weight file of the recording by the name that it has there, opened if it is not; null for a source without files.
  virtual const Safetensors* file(const std::string&) const { return nullptr; }
  // An array that was got is not needed at present: mapped memory leaves the process until it is read again.
  virtual void release(const Array&) const {}
  // An array that was got long ago is read now.
  virtual void use(const Array&) const {}
  // Weights may not be in memory all at once: whoever reads them calls `use`, and keeps no copies of large ones.
  virtual bool is_streamed() const { return false; }

 private:
  uint64_t number_;  // of this object, never used again
};

// Opens the files that a manifest names, each once, by `open` or when first asked; safe from several threads. Files lie
// inside the manifest's folder, except when it refers to weights where they are (`weights: ref`): then any path is taken.
enum class ParameterFiles { inside_folder, anywhere };
Safetensors open_weight_file(const std::filesystem::path& folder, const std::string& file, ParameterFiles);
std::shared_ptr<const ParameterSource> file_parameters(const std::filesystem::path& folder,
                                                       ParameterFiles = ParameterFiles::inside_folder);
// The same source with at most `budget` bytes of mapped weights in memory, or one of them when it is larger: what was used the
// longest time ago is released, and read from the disk again when it is needed.
std::shared_ptr<const ParameterSource> streamed_parameters(std::shared_ptr<const ParameterSource>, size_t budget);
// From memory, by canonical name (tests, captured models).
std::shared_ptr<const ParameterSource> memory_parameters(std::map<std::string, Array>);

}  // namespace pycandle
