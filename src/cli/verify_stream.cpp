#include "cli/verify_stream.h"

#include <fmt/format.h>

#include "base/safetensors.h"
#include "cli/child.h"
#include "cli/python_finder.h"
#include "ops/core/catalogue.h"
#include "runtime/model.h"
#include "verify/judging/goldens.h"

namespace pycandle::cli {
namespace {

Model::Tensors inputs_of(const Recording& recording) {
  if (recording.trace_file.empty()) return random_inputs(recording.program, 0);
  const std::vector<Array> arrays = Goldens(recording.program, recording.traces().front()).inputs();
  Model::Tensors inputs;
  for (size_t i = 0; i < arrays.size(); ++i) inputs[recording.program.inputs[i].name] = arrays[i];
  return inputs;
}

}  // namespace

StreamedGoldens::StreamedGoldens(const std::filesystem::path& model, const std::filesystem::path& inputs,
                                 const std::string& python)
    : trace_(folder_.path / "streamed_trace.safetensors") {
  const Recording recording = import_manifest(model, catalogue());
  const auto found = find_python(python);
  if (!found) {
    throw Error(ErrorCode::usage, "--stream needs Python with torch, and none was found")
        .hint("name one with --python or PYCANDLE_PYTHON; pycandle doctor shows what was found");
  }
  std::filesystem::path given = inputs;
  if (given.empty()) {
    given = folder_.path / "inputs.safetensors";
    write_safetensors(given, inputs_of(recording));
  }
  const int status = exit_status_of({found->path, "-m", "pycandle.peers.streamed", "--manifest", find_manifest(model).string(),
                                     "--inputs", given.string(), "--out", trace_.string()});
  if (status != 0) throw Error(ErrorCode::bad_input, "torch could not compute the values to compare with");
}

}  // namespace pycandle::cli
