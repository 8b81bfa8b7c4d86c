// A GGUF file behind its magic number and version.
#include "read_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  static const std::string kHead("GGUF\x03\x00\x00\x00", 8);
  read_checkpoint(kHead + std::string(text_of(data, size)));
  return 0;
}
