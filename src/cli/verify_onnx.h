// pycandle verify model.onnx --against onnxruntime: ONNX Runtime computes every value of the file.
#pragma once

#include <string>
#include <vector>

#include "cli/work_folder.h"

namespace pycandle::cli {

class OnnxGoldens {
 public:
  // inputs: a safetensors file by name; empty: random ones of these sizes.
  OnnxGoldens(const std::filesystem::path& model, const std::string& inputs, const std::vector<std::string>& sizes, uint64_t seed,
              const std::string& python);
  // A recording of the file with those values as its goldens, for as long as this lives.
  std::filesystem::path manifest() const { return folder_.path / "onnxruntime_manifest.json"; }

 private:
  WorkFolder folder_;
};

}  // namespace pycandle::cli
