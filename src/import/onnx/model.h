// An ONNX file as it is: its messages decoded, nothing interpreted. Names, texts and tensors point into the mapped file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/array.h"
#include "base/file.h"

namespace pycandle::onnx {

struct Graph;

struct Tensor {
  std::string_view name;
  int32_t type = 0;                  // TensorProto.DataType
  std::vector<int64_t> dims;
  std::string_view message;          // all of it: values that are not in raw_data are decoded when they are read
  std::optional<std::string_view> raw;
  bool is_external = false;
  std::map<std::string_view, std::string_view> external;  // location, offset, length
};

struct SparseTensor {
  Tensor values, indices;
  std::vector<int64_t> dims;
};

struct Attribute {
  std::string_view name;
  // GraphAttribute and the like point to what they hold: a Graph is not complete here.
  std::variant<std::monostate, float, int64_t, std::string_view, Tensor, std::shared_ptr<const Graph>, std::vector<float>,
               std::vector<int64_t>, std::vector<std::string_view>>
      value;
  std::shared_ptr<const SparseTensor> sparse;
  std::string_view reference;        // in a function: the attribute of its call that this is
};

struct Node {
  std::string_view name, op, domain, overload;
  std::vector<std::string_view> inputs, outputs;  // "": an optional one that is not given
  std::vector<Attribute> attributes;
  std::map<std::string_view, std::string_view> metadata;
};

struct ValueInfo {
  std::string_view name;
  std::string_view kind;             // empty: a tensor
  int32_t type = 0;
  struct Dim {
    std::optional<int64_t> number;
    std::string_view symbol;         // empty: nothing is known
  };
  std::optional<std::vector<Dim>> dims;  // nothing: not even the rank is known
};

struct Graph {
  std::string_view name;
  std::vector<Node> nodes;
  std::vector<Tensor> initializers;
  std::vector<ValueInfo> inputs, outputs, values;
  std::vector<std::shared_ptr<const SparseTensor>> sparse;
};

using Opsets = std::map<std::string_view, int64_t>;  // by domain; ONNX's own is ""

// An operator that the file defines.
struct Function {
  std::string_view name, domain, overload;
  Graph body;                                    // of its inputs and outputs only the names are known
  std::vector<std::string_view> attributes;
  std::vector<Attribute> defaults;
  Opsets opsets;
};

// What has a value: an initializer, or a Constant node.
struct Stored {
  const Tensor* tensor = nullptr;
  const Node* node = nullptr;
  const SparseTensor* sparse = nullptr;
  const Graph* graph = nullptr;                  // that it stands in
  std::string_view name;
  std::string key;                               // its name, with a number where several graphs of the file use it
};

struct Model {
  std::filesystem::path file;
  std::shared_ptr<const void> owner;             // of the bytes
  std::string stamp;                             // names the file and its state (base/file.h); empty when parsed from memory
  int64_t ir_version = 0;
  std::string_view producer, producer_version;
  Opsets opsets;
  Graph graph;
  std::vector<Function> functions;
  const Function* function(std::string_view domain, std::string_view name, std::string_view overload) const;

  std::map<const Graph*, std::map<std::string_view, Stored>> stored;  // by graph and name
  std::map<std::string, const Stored*, std::less<>> by_key;
  std::optional<Array> value(std::string_view key) const;  // nullopt: nothing stored has this key
  Array value(const Stored&) const;
};

// bad_input with the file and the place for anything that is not right.
std::shared_ptr<const Model> open(const std::filesystem::path&);
std::shared_ptr<Model> parse(std::string_view bytes, std::shared_ptr<const void> owner, const std::filesystem::path& file);

bool is_onnx_file(const std::filesystem::path&);  // by its ending

// Our dtype of a TensorProto.DataType, and its name for errors ("uint16").
std::optional<DType> dtype_of(int32_t type);
std::string name_of_type(int32_t type);
// The tensor, number or list of a Constant node.
Array constant_value(const Model&, const Node&);
// The values: a view of the mapped file where they lie as we have them. External data is a file in the model's folder.
Array read(const Model&, const Tensor&);
Array dense(const Model&, const SparseTensor&);

}  // namespace pycandle::onnx
