// The tokens of words that were seen before. Bounded: when it is full it starts again.
#pragma once

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "text/model.h"

namespace pycandle::text {

class WordCache {
 public:
  static constexpr size_t kLongestWord = 128;  // bytes

  // Its tokens, or nothing.
  const std::vector<Token>* find(std::string_view word, uint64_t hash) const {
    if (slots_.empty()) return nullptr;
    for (size_t slot = hash & kMask; slots_[slot] != 0; slot = (slot + 1) & kMask) {
      const Entry& entry = entries_[slots_[slot] - 1];
      if (entry.hash == hash && entry.size == word.size() &&
          std::memcmp(block_.data() + entry.offset, word.data(), word.size()) == 0)
        return &entry.tokens;
    }
    return nullptr;
  }

  void put(std::string_view word, uint64_t hash, std::span<const Token> tokens) {
    if (slots_.empty() || entries_.size() >= kWords) {
      slots_.assign(kMask + 1, 0);
      entries_.clear();
      block_.clear();
    }
    size_t slot = hash & kMask;
    while (slots_[slot] != 0) slot = (slot + 1) & kMask;
    entries_.push_back(
        {hash, static_cast<uint32_t>(block_.size()), static_cast<uint32_t>(word.size()), {tokens.begin(), tokens.end()}});
    block_.insert(block_.end(), word.begin(), word.end());
    slots_[slot] = static_cast<uint32_t>(entries_.size());
  }

 private:
  static constexpr size_t kWords = 16'384, kMask = 4 * kWords - 1;
  struct Entry {
    uint64_t hash;
    uint32_t offset, size;
    std::vector<Token> tokens;
  };
  std::vector<uint32_t> slots_;
  std::vector<Entry> entries_;
  std::vector<char> block_;
};

}  // namespace pycandle::text
