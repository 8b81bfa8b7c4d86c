// Any bytes are deflated data or one clear error.
#include "params/checkpoints/inflate.h"
#include "read_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  if (size < 2) return 0;
  const std::vector<std::byte> bytes(reinterpret_cast<const std::byte*>(data) + 2,
                                     reinterpret_cast<const std::byte*>(data) + size);
  try {
    const size_t wanted = data[0] + 256U * data[1];
    if (inflate(Bytes(bytes), wanted, "fuzz").size() != wanted) __builtin_trap();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) __builtin_trap();
  }
  return 0;
}
