// Tokens by text and by id. The texts stand in one block of memory; the table of hashes has one number a slot.
#pragma once

#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pycandle/tokenizer.h"
#include "text/compiled.h"
#include "text/utf8.h"

namespace pycandle::text {

using pycandle::TokenId;
constexpr TokenId kNoToken = UINT32_MAX;

// Not for untrusted tables alone: a vocabulary of colliding words is slow, not wrong.
inline uint64_t hash_bytes(const char* data, size_t size) {
  constexpr uint64_t kA = 0x9E3779B97F4A7C15ULL, kB = 0xD6E8FEB86659FD93ULL;
  uint64_t hash = size * kA;
  while (size >= 8) {
    uint64_t word;
    std::memcpy(&word, data, 8);
    hash = (hash ^ word) * kB;
    hash ^= hash >> 32;
    data += 8;
    size -= 8;
  }
  uint64_t word = 0;
  if (size > 0) std::memcpy(&word, data, size);
  hash = (hash ^ word) * kB;
  hash ^= hash >> 29;
  hash *= kA;
  return hash ^ hash >> 32;
}

class Vocabulary {
 public:
  void reserve(size_t tokens, size_t bytes);
  // A token that is there already gets the new id.
  void add(std::string_view token, TokenId id);
  // kNoToken when there is none.
  TokenId find(std::string_view token) const;
  std::optional<std::string_view> text(TokenId id) const;
  bool is(TokenId id, std::string_view left, std::string_view right) const;  // is its text left + right?
  size_t size() const { return count_; }
  size_t longest() const { return longest_; }  // bytes
  // Ids from 0 up to here; some may have no token.
  TokenId id_limit() const { return static_cast<TokenId>(by_id_.size()); }

  void write(TableWriter&) const;
  static Vocabulary read(TableReader&);

 private:
  struct Entry {
    uint32_t offset = 0, size = 0;
    TokenId id = kNoToken;
  };
  std::string_view text_of(const Entry& e) const { return {block_.data() + e.offset, e.size}; }
  size_t slot_of(std::string_view token) const;
  void grow();

  std::string block_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> slots_;  // index into entries_ plus 1; 0 is free
  std::vector<uint32_t> by_id_;  // likewise
  size_t count_ = 0, longest_ = 0;
};

}  // namespace pycandle::text
