// The memory plan: when each buffer is needed is known, so they share one arena.
//
//   const Arena arena = place({{.bytes = 400, .first = 0, .last = 1}, {.bytes = 400, .first = 1, .last = 2}, …});
//   memory + arena.offsets[i]   is where buffer i lies, in arena.bytes bytes
#pragma once

#include <cstddef>
#include <vector>

namespace pycandle {

// A buffer that is in use from step `first` to step `last`, both included.
struct ArenaBuffer {
  size_t bytes = 0;
  size_t first = 0, last = 0;
};

struct Arena {
  std::vector<size_t> offsets;  // of each buffer, multiples of the alignment; two that are in use at once do not overlap
  size_t bytes = 0;
};

// From the largest buffer to the smallest, each at the lowest offset where it overlaps none that lives at the same time.
Arena place(const std::vector<ArenaBuffer>&, size_t alignment = 64);

}  // namespace pycandle
