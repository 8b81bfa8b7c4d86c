// Deflated bytes (RFC 1951) out of zip and HDF5 files. Written here so that libpycandle needs no other library.
#pragma once

#include <string_view>
#include <vector>

#include "params/checkpoints/byte_reader.h"

namespace pycandle {

// Exactly `size` bytes; more, fewer or damaged ones are bad_input. `where` names the file in it.
std::vector<std::byte> inflate(Bytes deflated, uint64_t size, std::string_view where);
// At least the first of them, and not many more.
std::vector<std::byte> inflate_first(Bytes deflated, uint64_t size, uint64_t first, std::string_view where);
// Refuses sizes that deflate cannot reach or that are a trap: far more bytes than are stored.
void refuse_bomb(uint64_t stored, uint64_t inflated, std::string_view what);

}  // namespace pycandle
