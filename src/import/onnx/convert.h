// An ONNX file → a manifest and its weights, as recording a model writes them.   docs/onnx.md
#pragma once

#include <filesystem>
#include <string>

#include "import/onnx/onnx_importer.h"

namespace pycandle::onnx {

struct Converted {
  std::filesystem::path manifest, weights;
  int nodes = 0, parameters = 0;
  uint64_t bytes = 0;                // of the weights
  std::vector<std::pair<std::string, int>> values = {};  // of the file, by name: their ids in the manifest
};

// <folder>/<name>_manifest.json and <name>_weights.safetensors. gap for what is not supported: then nothing is written.
Converted convert(const std::filesystem::path& model, const std::filesystem::path& folder, const std::string& name,
                  const OpTable&);

}  // namespace pycandle::onnx
