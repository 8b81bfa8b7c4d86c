#include "base/hash.h"

#include <fmt/format.h>

#define XXH_INLINE_ALL  // so that a program that links this needs no libxxhash
#include <xxhash.h>

namespace pycandle {

std::string Hash128::text() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 hash128(const void* data, size_t bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

}  // namespace pycandle
