// PTIR text from outside: it parses or gives bad_input, and what parses prints to text that gives the same program.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  Program program;
  try {
    program = parse_program(text, catalogue());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input) std::abort();
    return 0;
  }
  if (!identical(program, parse_program(print(program), catalogue()))) std::abort();
  return 0;
}
