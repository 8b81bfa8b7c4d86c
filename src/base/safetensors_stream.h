// A safetensors file whose tensors are written as they come: none of them is held.
#pragma once

#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/safetensors.h"

namespace pycandle {

class SafetensorsStream {
 public:
  // names: of all the tensors that may come; the header stands before the data, so there must be room for it.
  SafetensorsStream(std::filesystem::path, const std::vector<std::string>& names);
  // The first of a name counts.
  void add(const std::string& name, const Array&);
  // Without it the file cannot be read.
  void finish();

 private:
  void write(const void* data, size_t bytes);

  std::filesystem::path path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  size_t room_ = 0, at_ = 0;
  std::map<std::string, Safetensors::Entry> entries_;
};

// The same when all types are known before: the bytes of each tensor come in pieces, in the planned order. The file is in
// its place only after commit(); until then it is called *.unfinished.
class SafetensorsWriter {
 public:
  struct Planned {
    std::string name;
    DType dtype;
    Sizes shape;
  };
  SafetensorsWriter(const std::filesystem::path&, const std::vector<Planned>&,
                    const std::map<std::string, std::string>& metadata = {});
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;
  void write(const void* data, size_t bytes);
  void finish();  // all of it is on the disk
  void commit();

 private:
  std::filesystem::path path_, unfinished_;
  AtomicFile file_;
  size_t left_ = 0;
  bool is_committed_ = false;
};

}  // namespace pycandle
