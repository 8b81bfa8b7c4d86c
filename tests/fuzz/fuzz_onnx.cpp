// An ONNX file from outside: it imports, or gives one clear error; never a program that the verifier refuses. What was accepted
// can be read to the last byte.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "base/error.h"
#include "import/onnx/onnx_importer.h"
#include "ops/core/catalogue.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pycandle;
  // A copy of exactly this size, so that reading past its end is seen.
  const auto bytes = std::make_shared<std::string>(reinterpret_cast<const char*>(data), size);
  try {
    const std::shared_ptr<const onnx::Model> model = onnx::parse(*bytes, bytes, "/nowhere/fuzz.onnx");
    const Recording recording = onnx::import_model(model, catalogue());
    for (const Parameter& p : recording.program.parameters) {
      const auto value = model->value(p.key);
      if (!value || load_complex(*value).size() != static_cast<size_t>(value->size())) std::abort();
    }
  } catch (const Error& error) {
    const bool expected = error.code() == ErrorCode::bad_input || error.code() == ErrorCode::gap;
    if (!expected || error.message().empty()) std::abort();
  }
  return 0;
}
