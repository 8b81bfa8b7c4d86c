#include "base/huge_memory.h"

#include <sys/mman.h>

#include <new>

namespace pycandle {

std::shared_ptr<std::byte> huge_memory(size_t bytes) {
  constexpr size_t kHuge = size_t{2} << 20, kSmall = 4096;
  if (bytes == 0) bytes = 1;
  const bool is_large = bytes >= kHuge;
  const size_t unit = is_large ? kHuge : kSmall, length = (bytes + unit - 1) / unit * unit;
  const size_t mapped = is_large ? length + kHuge : length;  // room to begin on a huge page
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(memory);
  if (is_large) {
    const size_t over = reinterpret_cast<size_t>(begin) % kHuge;
    if (over != 0) begin += kHuge - over;
    ::madvise(begin, length, MADV_HUGEPAGE);  // a wish: without it the pages are small
  }
  return {begin, [memory, mapped](std::byte*) { ::munmap(memory, mapped); }};
}

}  // namespace pycandle
