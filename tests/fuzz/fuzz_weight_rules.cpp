// Any text is a file of rules or one clear error; rules print and read back.
#include "params/mapping/rules.h"
#include "read_checkpoint.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  if (size > 4096) return 0;
  try {
    const Rules rules = Rules::parse(text_of(data, size), "fuzz");
    if (Rules::parse(rules.text(), "printed").all().size() != rules.all().size()) __builtin_trap();
    (void)rules.source_of("h.0.attn.weight");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) __builtin_trap();
  }
  return 0;
}
