#include "base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include <fmt/format.h>

#include "base/error.h"

namespace pycandle {

namespace {

constexpr size_t kPage = size_t{2} << 20;

// Whole pages: a tail of small ones would be read at their speed, and the kernel joins only what it owns whole.
size_t mapped_size(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

HugePages::HugePages(size_t bytes) : size_(bytes) {
  if (bytes == 0) return;
  // Small blocks would waste most of a page, and gain nothing.
  const size_t wanted = bytes < kPage / 2 ? (bytes + 4095) / 4096 * 4096 : mapped_size(bytes);
  const size_t slack = wanted < kPage ? 0 : kPage;
  void* raw = ::mmap(nullptr, wanted + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (raw == MAP_FAILED) throw Error(ErrorCode::internal, "no memory for packed weights").found(fmt::format("{} bytes", bytes));
  if (slack == 0) {
    data_ = raw;
    return;
  }
  const uintptr_t begin = reinterpret_cast<uintptr_t>(raw), aligned = (begin + kPage - 1) / kPage * kPage;
  if (aligned != begin) ::munmap(raw, aligned - begin);
  const size_t behind = begin + wanted + slack - (aligned + wanted);
  if (behind != 0) ::munmap(reinterpret_cast<void*>(aligned + wanted), behind);
  data_ = reinterpret_cast<void*>(aligned);
#ifdef MADV_HUGEPAGE
  ::madvise(data_, wanted, MADV_HUGEPAGE);  // a wish: small pages do as well
#endif
}

HugePages::HugePages(HugePages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

HugePages& HugePages::operator=(HugePages&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

HugePages::~HugePages() {
  if (data_ != nullptr) ::munmap(data_, size_ < kPage / 2 ? (size_ + 4095) / 4096 * 4096 : mapped_size(size_));
}

}  // namespace pycandle
