// 128-bit content hashes, stable between runs and machines: ids of parameters, keys of caches.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pycandle {

struct Hash128 {
  uint64_t high = 0, low = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  std::string text() const;  // 32 hex digits
};

Hash128 hash128(const void* data, size_t bytes);
inline Hash128 hash128(std::string_view text) { return hash128(text.data(), text.size()); }

}  // namespace pycandle
