#include "backends/cpu/fetch_ahead.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <system_error>

namespace pycandle::cpu {
namespace {

// In pieces, so that other threads that map memory do not wait for long. Memory that cannot be had is left as it is.
void bring(const Array& array, const std::atomic<bool>& stopped) {
#ifdef MADV_POPULATE_READ
  constexpr uintptr_t kPiece = 1 << 20;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE)), data = reinterpret_cast<uintptr_t>(array.data());
  const uintptr_t end = data + array.bytes();
  for (uintptr_t at = data / page * page; at < end && !stopped; at += kPiece)
    if (::madvise(reinterpret_cast<void*>(at), std::min(kPiece, end - at), MADV_POPULATE_READ) != 0) return;
#else
  (void)array, (void)stopped;
#endif
}

}  // namespace

FetchAhead::FetchAhead(std::vector<Array> in_order_of_use) : arrays_(std::move(in_order_of_use)) {
  try {
    thread_ = std::thread([this] {
      for (const Array& array : arrays_)
        if (!stopped_) bring(array, stopped_);
    });
  } catch (const std::system_error&) {  // no thread to be had: the run reads its pages itself
  }
}

FetchAhead::~FetchAhead() {
  stopped_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace pycandle::cpu
