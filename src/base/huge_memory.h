// Large blocks of memory, in huge pages where the system has them: reading through small ones costs a third of the
// bandwidth. Zeroed, aligned to 64 bytes at least.
#pragma once

#include <cstddef>
#include <memory>

namespace pycandle {

std::shared_ptr<std::byte> huge_memory(size_t bytes);

}  // namespace pycandle
