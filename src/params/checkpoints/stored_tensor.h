// A tensor where it lies: bytes of a mapped file, seen through strides and perhaps an encoding. Nothing is read until asked.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/array.h"
#include "base/file.h"
#include "params/checkpoints/byte_reader.h"
#include "params/checkpoints/encoding.h"

namespace pycandle {

// Bytes that tensors share: in a mapped file, or packed in one.
struct Storage {
  Bytes bytes;                             // as they are in the file
  uint64_t inflated = 0;                   // of packed bytes: how many they become; 0: they are as they are
  std::shared_ptr<const MappedFile> file;  // null when parsed from memory
  std::shared_ptr<const void> owner;       // keeps the bytes
  std::string where;                       // the file's name, for errors
  std::function<std::vector<std::byte>()> unpack = {};  // of packed bytes; null: they are deflated

  uint64_t size() const { return inflated != 0 ? inflated : bytes.size(); }
};

struct StoredTensor {
  std::string name;
  DType dtype = DType::f32;                // what reading gives
  Sizes shape, strides;                    // in elements
  uint64_t offset = 0;                     // bytes from the start of the storage
  const StoredEncoding* encoding = nullptr;      // null: stored as dtype itself
  std::shared_ptr<const Storage> storage;

  int64_t size() const { return element_count(shape); }
  bool is_dense() const;                   // row-major without holes
  std::string_view stored_as() const;      // "f32", "q4_1"
  uint64_t stored_bytes() const;           // of a dense copy in the stored form
};

// Row-major strides; refuses what the storage does not hold. Every reader makes its tensors with these.
StoredTensor dense_tensor(std::string name, DType, const StoredEncoding*, Sizes shape, std::shared_ptr<const Storage>,
                          uint64_t offset);
StoredTensor strided_tensor(std::string name, DType, const StoredEncoding*, Sizes shape, Sizes strides,
                            std::shared_ptr<const Storage>, uint64_t offset);

// The whole tensor: a view of the mapping where it is dense, aligned and in its own dtype, else a copy.
Array read(const StoredTensor&);
// Elements [first, first + count) in row-major order, as a list. `first` begins a block of the encoding.
Array read_range(const StoredTensor&, int64_t first, int64_t count);
// The mapped pages of the tensor leave this process's memory.
void release(const StoredTensor&);
// The tensor in pieces of about this many bytes, in order, each released when the next comes: a big tensor is never in
// memory as a whole unless it is deflated or its layout forces it.
void for_each_piece(const StoredTensor&, size_t piece_bytes, const std::function<void(const Array&)>&);

}  // namespace pycandle
