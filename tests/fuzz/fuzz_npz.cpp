// An array of NumPy in an archive.
#include "read_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  read_checkpoint(zip_around({{"a.npy", text_of(data, size)}}));
  return 0;
}
