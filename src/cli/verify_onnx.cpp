#include "cli/verify_onnx.h"

#include "cli/child.h"

namespace pycandle::cli {

OnnxGoldens::OnnxGoldens(const std::filesystem::path& model, const std::string& inputs, const std::vector<std::string>& sizes,
                         uint64_t seed, const std::string& python) {
  if (model.extension() != ".onnx") {
    throw Error(ErrorCode::usage, "--against onnxruntime verifies an ONNX file")
        .found(model.string())
        .hint("pycandle export M --onnx model.onnx writes one, and compares the two");
  }
  // What `record` prints for people is not part of this command's output; its errors are.
  std::vector<std::string> command = {"/bin/sh",
                                      "-c",
                                      "exec \"$0\" \"$@\" >/dev/null",
                                      std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "record",
                                      model.string(),
                                      "--name",
                                      "onnxruntime",
                                      "--out",
                                      folder_.path.string(),
                                      "--seed",
                                      std::to_string(seed)};
  const auto add = [&](const char* option, const std::string& value) { command.insert(command.end(), {option, value}); };
  for (const std::string& size : sizes) add("--set", size);
  if (!inputs.empty()) add("--inputs", inputs);
  if (!python.empty()) add("--python", python);
  const int status = exit_status_of(command);
  if (status != 0)
    throw Error(status == 1 ? ErrorCode::gap : ErrorCode::bad_input, "ONNX Runtime gave no values to compare with");
}

}  // namespace pycandle::cli
