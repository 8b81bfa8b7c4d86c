#include "backends/arena.h"

#include <algorithm>
#include <numeric>

namespace pycandle {

Arena place(const std::vector<ArenaBuffer>& buffers, size_t alignment) {
  Arena arena;
  arena.offsets.assign(buffers.size(), 0);
  const auto rounded = [&](size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  const auto meet = [](const ArenaBuffer& a, const ArenaBuffer& b) { return a.first <= b.last && b.first <= a.last; };

  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return buffers[a].bytes > buffers[b].bytes; });
  std::vector<size_t> placed;  // by offset
  for (const size_t b : order) {
    const size_t bytes = rounded(buffers[b].bytes);
    size_t at = 0;
    for (const size_t other : placed) {
      if (!meet(buffers[other], buffers[b])) continue;
      if (at + bytes <= arena.offsets[other]) break;
      at = std::max(at, rounded(arena.offsets[other] + buffers[other].bytes));
    }
    arena.offsets[b] = at;
    arena.bytes = std::max(arena.bytes, at + bytes);
    const auto before = [&](size_t x, size_t y) { return arena.offsets[x] < arena.offsets[y]; };
    placed.insert(std::upper_bound(placed.begin(), placed.end(), b, before), b);
  }
  return arena;
}

}  // namespace pycandle
