#include "verify/judging/other_trace.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <utility>

#include "base/error.h"
#include "base/safetensors_stream.h"
#include "verify/judging/goldens.h"

namespace pycandle {
namespace {

// The file's format has no c128: pairs of f64.
Array storable(const Array& a) {
  if (a.dtype() != DType::c128) return a;
  Sizes shape = a.shape();
  shape.push_back(2);
  return Array(DType::f64, shape, a.data(), std::make_shared<Array>(a));
}

// Without a name from the start, so that a run that is killed leaves nothing; whoever has the descriptor can open it.
std::shared_ptr<const std::filesystem::path> temporary_file() {
  std::string name = (std::filesystem::temp_directory_path() / "pycandle-XXXXXX").string();
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0)
    throw Error(ErrorCode::bad_input, fmt::format("no temporary file can be made: {}", name)).hint("set TMPDIR");
  ::unlink(name.c_str());
  return {new std::filesystem::path(fmt::format("/proc/self/fd/{}", descriptor)), [descriptor](const std::filesystem::path* p) {
            ::close(descriptor);
            delete p;
          }};
}

}  // namespace

OtherTrace::OtherTrace(const Program& p, const OpTable& table, const Backend& backend,
                       std::shared_ptr<const ParameterSource> parameters, std::vector<Array> inputs, std::vector<Array>& states)
    : path_(temporary_file()) {
  std::vector<std::string> names;
  for (const Input& input : p.inputs) names.push_back("input:" + input.name);
  for (const Output& output : p.outputs) names.push_back("output:" + output.name);
  for (const Tap& tap : p.taps) names.push_back(tap.key);
  for (const State& state : p.states) {
    names.push_back(key_before(state));
    names.push_back(key_after(state));
  }
  SafetensorsStream file(*path_, names);
  for (size_t i = 0; i < inputs.size(); ++i) file.add("input:" + p.inputs[i].name, storable(inputs[i]));
  for (size_t i = 0; i < states.size(); ++i) file.add(key_before(p.states[i]), storable(states[i]));
  RunRequest request;
  request.inputs = std::move(inputs);
  request.states = &states;
  request.prepare_fully = true;
  request.on_tap = [&](size_t tap, const Array& value) { file.add(p.taps[tap].key, storable(value)); };
  const std::vector<Array> outputs = backend.compile(p, table, std::move(parameters))->run(request);
  for (size_t i = 0; i < outputs.size(); ++i) file.add("output:" + p.outputs[i].name, storable(outputs[i]));
  for (size_t i = 0; i < states.size(); ++i) file.add(key_after(p.states[i]), storable(states[i]));
  file.finish();
}

}  // namespace pycandle
