// Random numbers that are the same everywhere: xoshiro256**, in integers.
#pragma once

#include <array>
#include <cstdint>

namespace pycandle {

class Random {
 public:
  // Streams of one seed are independent of each other: one for each sample.
  explicit Random(uint64_t seed, uint64_t stream = 0) {
    uint64_t state = seed ^ (mixed(stream + 1) * 0x9E3779B97F4A7C15U);
    for (uint64_t& word : words_) word = mixed(state += 0x9E3779B97F4A7C15U);
  }

  uint64_t next() {
    const uint64_t result = rotated(words_[1] * 5, 7) * 9, shifted = words_[1] << 17U;
    words_[2] ^= words_[0];
    words_[3] ^= words_[1];
    words_[1] ^= words_[2];
    words_[0] ^= words_[3];
    words_[2] ^= shifted;
    words_[3] = rotated(words_[3], 45);
    return result;
  }

  double uniform() { return static_cast<double>(next() >> 11U) * 0x1p-53; }  // in [0, 1)

 private:
  static uint64_t rotated(uint64_t x, unsigned by) { return (x << by) | (x >> (64U - by)); }
  static uint64_t mixed(uint64_t x) {  // splitmix64
    x = (x ^ (x >> 30U)) * 0xBF58476D1CE4E5B9U;
    x = (x ^ (x >> 27U)) * 0x94D049BB133111EBU;
    return x ^ (x >> 31U);
  }
  std::array<uint64_t, 4> words_;
};

}  // namespace pycandle
