// The members of a zip archive, where they lie in it. Everything the archive says is checked: offsets, sizes, overlaps,
// duplicate names, local headers that disagree. Nothing is unpacked.
#pragma once

#include <map>
#include <string>

#include "params/checkpoints/byte_reader.h"

namespace pycandle {

struct ZipMember {
  Bytes bytes;            // as stored
  uint64_t inflated = 0;  // of deflated members: their size unpacked; 0: stored as they are
};

bool is_zip(Bytes);
std::map<std::string, ZipMember> zip_members(Bytes, std::string_view file);
// The member unpacked, at most `limit` bytes.
std::string member_text(const ZipMember&, uint64_t limit, const std::string& where);

}  // namespace pycandle
