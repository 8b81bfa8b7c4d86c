// pycandle export.
#pragma once

#include "cli/command.h"
#include "emit/onnx/export.h"
#include "runtime/model.h"

namespace pycandle::cli {

void add_export(Command&, Context&);

// How ONNX Runtime's values of an exported file stand to the program's.
struct CheckedOutput {
  std::string name, sizes;             // sizes: "s0=3", empty at the recorded ones
  double error = 0;                    // the largest difference, relative to the largest number
  bool passed = true, within_rounding = true;
  std::string why;
};
struct ExportCheck {
  std::string runner;                  // "onnxruntime 1.31.1"; empty: it was not run
  std::string why_not;                 // then
  std::vector<CheckedOutput> outputs;
  bool passed() const;
};

// Which Python has onnxruntime? An empty path: none, and why.
struct OnnxPython {
  std::string path, why_not;
  int newest_opset = 0;
};
OnnxPython find_onnx_python(const std::string& named);
// Runs the file at the inputs of the recording, and at other sizes where it has some.
ExportCheck check_export(const Model&, const emit::onnx::Interface&, const std::filesystem::path& file, const OnnxPython&);

}  // namespace pycandle::cli
