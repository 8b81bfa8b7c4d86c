// An ONNX model in memory, as far as we write it, and its bytes.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/array.h"
#include "ir/graph.h"

namespace pycandle::emit::onnx {

struct OnnxGraph;

using Names = std::vector<std::string>;
using OnnxAttribute = std::variant<int64_t, double, std::string, Ints, Numbers, Names, Array, std::shared_ptr<OnnxGraph>>;
using OnnxAttributes = std::vector<std::pair<std::string, OnnxAttribute>>;

struct OnnxNode {
  std::string op, name;
  Names inputs, outputs;                      // one that is absent is empty
  OnnxAttributes attributes;
  std::vector<std::pair<std::string, std::string>> metadata = {};
};

struct OnnxValue {
  std::string name;
  Type type;
};

struct OnnxGraph {
  std::string name;
  std::vector<OnnxNode> nodes;
  std::vector<OnnxValue> inputs, outputs;
  std::vector<std::pair<std::string, Array>> initializers;
};

struct OnnxModel {
  OnnxGraph graph;
  int opset = 0;
};

struct Written {
  std::filesystem::path data;                 // empty: everything is in the file
  uint64_t bytes = 0;                         // of both
};
// A protobuf message has 2 GB at most: where the initializers have more than `most_inside` bytes, those of 1 KB and more go into
// <file>.data beside it.
Written write(const OnnxModel&, const std::filesystem::path&, uint64_t most_inside);

int element_type(DType);                      // TensorProto.DataType

}  // namespace pycandle::emit::onnx
