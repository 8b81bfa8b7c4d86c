#include "verify/other_trace.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <utility>

#include "base/safetensors_stream.h"

namespace pycandle {
namespace {

// The file's format has no c128: pairs of f64.
Array storable(const Array& a) {
  if (a.dtype() != DType::c128) return a;
  Sizes shape = a.shape();
  shape.push_back(2);
  return Array(DType::f64, shape, a.data(), std::make_shared<Array>(a));
}

std::shared_ptr<const std::filesystem::path> temporary_file() {
  static std::atomic<int> count{0};
  const auto path = std::filesystem::temp_directory_path() / fmt::format("pycandle-{}-{}.safetensors", getpid(), ++count);
  return {new std::filesystem::path(path), [](const std::filesystem::path* p) {
            std::error_code ignored;
            std::filesystem::remove(*p, ignored);
            delete p;
          }};
}

}  // namespace

OtherTrace::OtherTrace(const Program& p, const OpTable& table, const Backend& backend,
                       std::shared_ptr<const ParameterSource> parameters, std::vector<Array> inputs)
    : path_(temporary_file()) {
  std::vector<std::string> names;
  for (const Input& input : p.inputs) names.push_back("input:" + input.name);
  for (const Output& output : p.outputs) names.push_back("output:" + output.name);
  for (const Tap& tap : p.taps) names.push_back(tap.key);
  SafetensorsStream file(*path_, names);
  for (size_t i = 0; i < inputs.size(); ++i) file.add("input:" + p.inputs[i].name, storable(inputs[i]));
  RunRequest request;
  request.inputs = std::move(inputs);
  request.prepare_fully = true;
  request.on_tap = [&](size_t tap, const Array& value) { file.add(p.taps[tap].key, storable(value)); };
  const std::vector<Array> outputs = backend.compile(p, table, std::move(parameters))->run(request);
  for (size_t i = 0; i < outputs.size(); ++i) file.add("output:" + p.outputs[i].name, storable(outputs[i]));
  file.finish();
}

}  // namespace pycandle
