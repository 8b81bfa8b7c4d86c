// Any bytes are a tokenizer or one clear error; one that was accepted encodes and decodes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "pycandle/tokenizer.h"

namespace pycandle {

template <class Open> int encode_with(Open open, const uint8_t* data, size_t size) {
  try {
    Tokenizer tokenizer = open(std::string_view(reinterpret_cast<const char*>(data), size));
    tokenizer.padding.reset();  // may ask for megabytes
    const Encoding encoding = tokenizer.encode("The caf\xC3\xA9 <s>\xF0\x9F\x8F\xA0\xFF 12\n");
    if (tokenizer.tokens(encoding).size() != encoding.size()) __builtin_trap();
    tokenizer.decode(encoding.ids);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal || error.message().empty()) __builtin_trap();
  }
  return 0;
}

}  // namespace pycandle
