// A program as an ONNX file.   docs/onnx-export.md
#pragma once

#include "emit/onnx/model.h"
#include "import/importer.h"
#include "params/parameters.h"

namespace pycandle::emit::onnx {

inline constexpr int kOldestOpset = 20, kNewestOpset = 26;

// The file's inputs, outputs and states, by the names that the program has for them.
struct Interface {
  std::vector<std::pair<std::string, std::string>> inputs, outputs;  // of the program, of the file
  size_t states = 0;                          // the last of both
};

struct Exported {
  OnnxModel model;
  Interface interface;
  size_t nodes = 0, parameters = 0;
};

// Of a program in program form. Ops that ONNX lacks are decomposed; what is left without a form is one error (gap) that lists
// all of it.
Exported export_program(Program, const ParameterSource&, const OpTable&, int opset);

}  // namespace pycandle::emit::onnx
