// safetensors, with the element types that programs do not compute with.
#include <algorithm>

#include "base/safetensors_header.h"
#include "params/checkpoints/readers.h"

namespace pycandle {
namespace {

struct ForeignType {
  std::string_view in_file, encoding;
};
constexpr ForeignType kForeign[] = {{"U16", "u16"},           {"U32", "u32"},         {"U64", "u64"},
                                    {"F8_E4M3", "f8_e4m3fn"}, {"F8_E5M2", "f8_e5m2"}, {"F8_E8M0", "f8_e8m0fnu"}};

}  // namespace

// The length of a header that fits, and the beginning of its JSON.
bool is_safetensors(Bytes bytes) {
  constexpr size_t kLength = 8;
  if (bytes.size() <= kLength || bytes[kLength] != std::byte{'{'}) return false;
  return ByteReader(bytes, "").number<uint64_t>("the length") <= bytes.size() - kLength;
}

FileContent read_safetensors(const CheckpointFile& file) {
  SafetensorsHeader::OtherTypes others;
  for (const ForeignType& type : kForeign) others.emplace(type.in_file, find_encoding(type.encoding)->block_bytes);
  const SafetensorsHeader header = SafetensorsHeader::parse(file.bytes.data(), file.bytes.size(), file.name, others);
  FileContent out;
  out.format = "safetensors";
  out.metadata = header.metadata;
  const auto storage = file.storage(file.bytes);
  for (const auto& [name, entry] : header.entries) {
    const StoredEncoding* encoding = nullptr;
    for (const ForeignType& type : kForeign)
      if (entry.type == type.in_file) encoding = find_encoding(type.encoding);
    out.tensors.push_back(dense_tensor(name, entry.dtype ? *entry.dtype : encoding->dtype, encoding, entry.shape, storage,
                                       header.data + entry.begin));
  }
  std::stable_sort(out.tensors.begin(), out.tensors.end(),
                   [](const StoredTensor& a, const StoredTensor& b) { return a.offset < b.offset; });
  return out;
}

}  // namespace pycandle
