// Any bytes are a checkpoint or one clear error; what was accepted can be read to the last byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "params/checkpoints/checkpoint.h"

namespace pycandle {

inline void read_checkpoint(std::string_view text) {
  // A copy of exactly this size, so that reading past its end is seen.
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  const auto bytes = std::make_shared<std::vector<std::byte>>(begin, begin + text.size());
  constexpr int64_t kMost = 1 << 22;  // a view may repeat what is stored, within limits; reading it is no news
  try {
    const Checkpoint checkpoint = Checkpoint::parse(Bytes(*bytes), bytes, "fuzz");
    for (const StoredTensor& t : checkpoint.tensors()) {
      if (t.size() > kMost) continue;
      const Array array = read(t);
      if (array.shape() != t.shape || array.dtype() != t.dtype) __builtin_trap();
      if (load_complex(array).size() != static_cast<size_t>(t.size())) __builtin_trap();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input || error.message().empty()) __builtin_trap();
  }
}

inline std::string_view text_of(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

template <class T> void put(std::string& out, T value) { out.append(reinterpret_cast<const char*>(&value), sizeof value); }

// A zip archive of stored members.
inline std::string zip_around(const std::vector<std::pair<std::string, std::string_view>>& members) {
  std::string out, directory;
  for (const auto& [name, data] : members) {
    const auto offset = static_cast<uint32_t>(out.size()), size = static_cast<uint32_t>(data.size());
    const auto header = [&](std::string& into) {
      for (const int word : {20, 0, 0, 0, 0}) put(into, static_cast<uint16_t>(word));
      for (const uint32_t word : {0U, size, size}) put(into, word);
      for (const size_t word : {name.size(), size_t{0}}) put(into, static_cast<uint16_t>(word));
    };
    put(out, uint32_t{0x04034b50});
    header(out);
    out += name;
    out += data;
    put(directory, uint32_t{0x02014b50});
    put(directory, uint16_t{20});
    header(directory);
    directory.append(10, '\0');
    put(directory, offset);
    directory += name;
  }
  const auto begin = static_cast<uint32_t>(out.size()), bytes = static_cast<uint32_t>(directory.size());
  out += directory;
  put(out, uint32_t{0x06054b50});
  for (const size_t word : {size_t{0}, size_t{0}, members.size(), members.size()}) put(out, static_cast<uint16_t>(word));
  put(out, bytes);
  put(out, begin);
  put(out, uint16_t{0});
  return out;
}

}  // namespace pycandle
