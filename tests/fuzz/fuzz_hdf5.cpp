// An HDF5 file. libhdf5 runs in a child process, so whatever it does ends as an error.
#include "read_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  read_checkpoint("\x89HDF\r\n\x1a\n" + std::string(text_of(data, size)));
  return 0;
}
