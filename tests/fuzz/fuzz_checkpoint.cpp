// The bytes of a whole file, whatever format they look like.
#include "read_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  read_checkpoint(text_of(data, size));
  return 0;
}
