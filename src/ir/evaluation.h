// One primitive at run time: its arrays and attributes by name, with every symbolic dim a number.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "base/array.h"
#include "ir/op_def.h"

namespace pycandle {

// Runs a region of a control-flow op.
using RegionRunner = std::function<std::vector<Array>(const Graph& region, std::vector<Array> inputs)>;

class Evaluation {
 public:
  // f64 mode: floating results are stored as f64 (complex as c128), so nothing is rounded.
  Evaluation(const Node& node, const Graph& graph, std::vector<const Array*> operands, const Bindings& bindings, bool f64_mode,
             const RegionRunner* run_region);

  const Array& array(std::string_view name) const;               // throws internal when absent
  const Array* maybe(std::string_view name) const;
  std::vector<const Array*> arrays(std::string_view name) const;  // the variadic operand

  // Attributes, as in Call, with dims as numbers.
  const Attribute& attribute(std::string_view name) const;
  bool has(std::string_view name) const;
  bool boolean(std::string_view name) const;
  int64_t integer(std::string_view name) const;                   // attributes of kind integer and dim
  double number(std::string_view name) const;
  Scalar scalar(std::string_view name) const;
  const std::string& string(std::string_view name) const;
  DType dtype(std::string_view name) const;
  const Ints& integers(std::string_view name) const;
  Sizes sizes(std::string_view name) const;                       // attributes of kind dims

  Sizes out_shape(size_t result = 0) const;  // of the inferred type; throws when a symbol is bound by data
  DType out_dtype(size_t result = 0) const;  // as stored: f64 instead of f32 in f64 mode
  DType stored(DType logical) const;
  bool f64_mode() const { return f64_mode_; }
  const Bindings& bindings() const { return *bindings_; }
  const Node& node() const { return *node_; }
  std::vector<Array> run_region(size_t index, std::vector<Array> inputs) const;

  uint64_t seed = 0;  // of random ops: the runner mixes the seed of the run with the number of the node's execution

 private:
  const Node* node_;
  const Graph* graph_;
  std::vector<const Array*> operands_;
  const Bindings* bindings_;
  bool f64_mode_;
  const RegionRunner* run_region_;
};

}  // namespace pycandle
