#include "base/hash.h"

#include <fmt/format.h>

#include "base/hasher.h"

#define XXH_INLINE_ALL  // so that a program that links this needs no libxxhash
#include <xxhash.h>

namespace pycandle {

std::string Hash128::text() const { return fmt::format("{:016x}{:016x}", high, low); }

Hash128 hash128(const void* data, size_t bytes) {
  const XXH128_hash_t hash = XXH3_128bits(data, bytes);
  return {hash.high64, hash.low64};
}

struct Hasher128::State {
  XXH3_state_t xxh;
};

Hasher128::Hasher128() : state_(new State) { XXH3_128bits_reset(&state_->xxh); }
Hasher128::~Hasher128() = default;
void Hasher128::add(const void* data, size_t bytes) { XXH3_128bits_update(&state_->xxh, data, bytes); }
Hash128 Hasher128::value() const {
  const XXH128_hash_t hash = XXH3_128bits_digest(&state_->xxh);
  return {hash.high64, hash.low64};
}

}  // namespace pycandle
