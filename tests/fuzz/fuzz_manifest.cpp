// A manifest from outside: it imports, or gives one clear error; never a program that the verifier refuses.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/error.h"
#include "import/importer.h"
#include "ops/core/catalogue.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    import_manifest_text(text, catalogue(), "manifest");
  } catch (const Error& error) {
    bool expected = error.code() == ErrorCode::bad_input || error.code() == ErrorCode::gap;
    if (!expected || error.message().empty()) std::abort();
  }
  return 0;
}
