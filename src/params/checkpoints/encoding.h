// Elements that files store in another form than programs compute with: float8, unsigned integers, bytes the other way
// round, GGUF's quantised blocks. Each is decoded block by block into one of our dtypes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/dtype.h"

namespace pycandle {

struct StoredEncoding {
  std::string_view name;  // "q4_1", "f8_e4m3fn", "u16"
  int64_t block;          // elements that are decoded together
  size_t block_bytes;
  DType dtype;            // what they become
  void (*decode)(const std::byte* block, void* elements);
};

// Of single elements: u16 → i32, u32 and u64 → i64 (what does not fit is std::overflow_error), float8 → f32. Null: there is
// none.
const StoredEncoding* find_encoding(std::string_view name);
// Of a dtype whose bytes stand the other way round (big-endian files); null for those of one byte.
const StoredEncoding* swapped_encoding(DType);
// Of torch's lazy views: the conjugate of complex numbers, and numbers with the other sign. Null: there is none of this dtype.
const StoredEncoding* conjugated_encoding(DType);
const StoredEncoding* negated_encoding(DType);

// A type of GGUF by its number: one of ours as it is, or an encoding.
struct GgufType {
  uint32_t number;
  std::optional<DType> dtype;
  StoredEncoding encoding;
};
const GgufType* find_gguf_type(uint32_t number);  // null: unknown, or one that nobody dequantises

}  // namespace pycandle
