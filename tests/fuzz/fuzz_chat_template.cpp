// Any bytes are a chat template or one clear error, and running it comes to an end.
#include "base/error.h"
#include "pycandle/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  static const std::string kVariables =
      R"({"messages": [{"role": "user", "content": "Hi \u00e9"}, {"role": "assistant", "content": null}], "bos_token": "<s>"})";
  try {
    ChatTemplate(std::string(reinterpret_cast<const char*>(data), size)).render(kVariables);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::internal || error.message().empty()) __builtin_trap();
  }
  return 0;
}
