// The safetensors format. Files come from outside: header size, offsets, overlaps, dtypes, counts and duplicate names
// are checked before anything is used.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/array.h"
#include "base/file.h"

namespace pycandle {

class Safetensors {
 public:
  struct Entry {
    DType dtype;
    Sizes shape;
    size_t begin, end;  // bytes from the start of the data
  };
  static Safetensors open(const std::filesystem::path&);
  // For tests and fuzzing: parses bytes that the caller keeps alive through `owner`.
  static Safetensors parse(const std::byte* data, size_t size, std::shared_ptr<const void> owner, std::string name);

  bool contains(const std::string& name) const { return entries_.count(name) != 0; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  Array get(const std::string& name) const;  // a view of the mapping (copied when misaligned); throws bad_input when absent
  const std::string& name() const { return name_; }
  const std::shared_ptr<const MappedFile>& file() const { return file_; }  // null when parsed from memory

 private:
  std::string name_;
  std::shared_ptr<const MappedFile> file_;
  std::shared_ptr<const void> owner_;
  const std::byte* data_ = nullptr;
  std::map<std::string, Entry> entries_;
  std::map<std::string, std::string> metadata_;
};

// Written atomically, names in sorted order.
void write_safetensors(const std::filesystem::path&, const std::map<std::string, Array>&,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace pycandle
