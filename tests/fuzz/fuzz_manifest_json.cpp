// Any text is JSON or one clear error; what was accepted is written and read again as the same value, and every
// string in it is a dim or one clear error.
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include "base/dim.h"
#include "base/error.h"
#include "base/json.h"

namespace {

using namespace pycandle;

template <class Action> void either_works_or_is_bad_input(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::bad_input || error.message().empty()) __builtin_trap();
  }
}

void try_dims(const Json& j) {
  if (j.is_string()) {
    either_works_or_is_bad_input([&] {
      const Dim d = Dim::parse(j.get_ref<const std::string&>());
      if (!(Dim::parse(d.text()) == d)) __builtin_trap();
      equal(d, Dim::symbol("s0") + 1);
    });
  }
  for (const Json& child : j)
    if (j.is_structured()) try_dims(child);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  either_works_or_is_bad_input([&] {
    const Json j = parse_json(text, "fuzz");
    const std::string written = j.dump();
    if (parse_json(written, "fuzz").dump() != written) __builtin_trap();
    try_dims(j);
  });
  return 0;
}
