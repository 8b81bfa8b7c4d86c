// The pickle of a torch checkpoint: the archive around it is right, and has two storages.
#include "read_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  const std::string floats(64, 'x');
  read_checkpoint(zip_around({{"a/data.pkl", text_of(data, size)}, {"a/data/0", floats}, {"a/data/1", floats}}));
  return 0;
}
