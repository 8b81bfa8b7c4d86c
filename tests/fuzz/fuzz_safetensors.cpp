// Any bytes are a safetensors file or one clear error; what was accepted can be read to the last byte.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  // A copy of exactly this size, so that reading past its end is seen.
  const auto* begin = reinterpret_cast<const std::byte*>(data);
  const auto bytes = std::make_shared<std::vector<std::byte>>(begin, begin + size);
  try {
    const Safetensors file = Safetensors::parse(bytes->data(), bytes->size(), bytes, "fuzz");
    for (const auto& [name, entry] : file.entries()) {
      const Array array = file.get(name);
      if (array.bytes() != entry.end - entry.begin || load_complex(array).size() != static_cast<size_t>(array.size()))
        __builtin_trap();
    }
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input || error.message().empty()) __builtin_trap();
  }
  return 0;
}
