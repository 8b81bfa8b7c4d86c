// Prompts that were seen, with their caches: one that begins as another starts behind what both share.   docs/decoding.md
#pragma once

#include <list>
#include <mutex>
#include <vector>

#include "runtime/decoder.h"

namespace pycandle {

class PrefixStore {
 public:
  // Caches of so many bytes; those that were not asked for longest are dropped.
  PrefixStore(Decoder decoder, size_t bytes) : decoder_(std::move(decoder)), most_(bytes) {}

  // tokens: those of the sequence, as many as are in the cache.
  void keep(const Cache&, int64_t sequence, const std::vector<int64_t>& tokens);
  struct Start {
    Cache cache;        // of one sequence
    int64_t known = 0;  // so many tokens of the prompt are in it; never all, since the last one gives the first result
  };
  Start start(const std::vector<int64_t>& prompt, int64_t capacity);
  size_t bytes() const;
  size_t size() const;

 private:
  struct Entry {
    std::vector<int64_t> tokens;
    Cache cache;
  };
  Decoder decoder_;
  size_t most_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the one that was asked for last is first
};

}  // namespace pycandle
