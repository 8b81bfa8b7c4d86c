// An ONNX file → PTIR, by the mappings that stand in the catalogue (ops/core/onnx_mapping.h). What nothing maps, and an attribute
// that nothing consumes, is an error that names the node.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "import/importer.h"
#include "import/onnx/model.h"
#include "ops/core/aten_call.h"

namespace pycandle::onnx {

// A node as it was imported: with the numbers that its inputs turned out to be, and values of the program.
struct ImportedNode {
  std::string overload;  // onnx.Gelu.20
  std::vector<std::pair<std::string, Argument>> arguments;
  Values results;
  std::string name;  // of the first one
  Origin origin;
};

// imported: gets the nodes too.
Recording import_model(const std::shared_ptr<const Model>&, const OpTable&, std::vector<ImportedNode>* imported = nullptr);
Recording import_file(const std::filesystem::path&, const OpTable&);
// Counts what no mapping takes; never throws for it.
Analysis analyse(const std::filesystem::path&, const OpTable&);

}  // namespace pycandle::onnx
