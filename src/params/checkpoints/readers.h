// A reader for each format: the bytes of one file → its tensors.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "params/checkpoints/checkpoint.h"
#include "params/checkpoints/stored_tensor.h"

namespace pycandle {

struct ZipMember;

// A file as a reader gets it. Storages made from it keep its mapping.
struct CheckpointFile {
  Bytes bytes;
  std::shared_ptr<const MappedFile> mapping;  // null when parsed from memory
  std::shared_ptr<const void> owner;
  std::string name;

  std::shared_ptr<const Storage> storage(Bytes part, uint64_t inflated = 0) const {
    return std::make_shared<const Storage>(Storage{part, inflated, mapping, owner, name});
  }
};

struct FileContent {
  std::string format;
  std::vector<StoredTensor> tensors;
  std::map<std::string, std::string> metadata;
  // Of torch's and HDF5 files: the dicts or groups on the way to each tensor, so that the weights are found among optimizer
  // states.
  std::vector<std::vector<std::string>> paths;  // beside `tensors`; empty for other formats
  std::string separator = ".";                  // of paths in names
};

// A type as NumPy spells it: "<f4". bad_input for what is not a number.
struct ElementType {
  DType dtype = DType::f32;
  const StoredEncoding* encoding = nullptr;
};
ElementType numpy_type(std::string_view spelling, const ByteReader& where);

bool is_safetensors(Bytes);
FileContent read_safetensors(const CheckpointFile&);
bool is_gguf(Bytes);
FileContent read_gguf(const CheckpointFile&);
bool is_npy(Bytes);
FileContent read_npy(const CheckpointFile&);
bool is_torch_zip(const std::map<std::string, ZipMember>&);
FileContent read_torch_zip(const CheckpointFile&, const std::map<std::string, ZipMember>&);
FileContent read_npz(const CheckpointFile&, const std::map<std::string, ZipMember>&);
bool is_hdf5(Bytes);
FileContent read_hdf5(const CheckpointFile&);
bool is_legacy_torch(Bytes);
FileContent read_legacy_torch(const CheckpointFile&);

}  // namespace pycandle
