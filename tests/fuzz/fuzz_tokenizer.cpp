// A tokenizer.json.
#include "encode_with.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  return pycandle::encode_with([](auto bytes) { return pycandle::Tokenizer::from_text(bytes); }, data, size);
}
