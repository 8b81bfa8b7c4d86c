// Random numbers that depend on a seed and on who asks, not on what ran before: every random op of a run has a stream.
#pragma once

#include <cstdint>

namespace pycandle {

inline uint64_t splitmix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

// A good mix of two numbers: the seed of a stream.
inline uint64_t mixed(uint64_t seed, uint64_t index) { return splitmix(splitmix(seed) ^ (index * 0xd1342543de82ef95)); }

}  // namespace pycandle
