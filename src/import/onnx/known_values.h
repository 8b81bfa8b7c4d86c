// What is known of small values while a file is read: shapes that are computed (Shape, Gather, Concat, Reshape's operand) are
// numbers and sizes, not data.
#pragma once

#include <optional>
#include <vector>

#include "base/array.h"
#include "ir/graph.h"
#include "ops/core/aten_call.h"

namespace pycandle::onnx {

class KnownValues {
 public:
  KnownValues(const SymbolRanges& ranges, const OpTable& table) : ranges_(&ranges), table_(&table) {}

  void set(ValueId, Array);              // of an initializer; large ones are left out
  void adopt(const KnownValues& others, ValueId theirs, ValueId mine);  // what they know of a value that is mine too
  // Evaluates the nodes that were added to the graph since the last call.
  void update(const pycandle::Graph&);
  // As an argument: a number, a size, or a list of them. Nothing: it is data, or not of rank 0 or 1.
  std::optional<Argument> argument(const pycandle::Graph&, ValueId) const;

 private:
  // Integers may be sizes; other values are an array.
  struct Value {
    std::optional<Array> array;
    std::vector<Dim> dims;
  };
  const Value* find(ValueId) const;
  void evaluate(const pycandle::Graph&, const pycandle::Node&);
  bool evaluate_numbers(const pycandle::Graph&, const pycandle::Node&);
  void evaluate_sizes(const pycandle::Graph&, const pycandle::Node&);
  void rearrange(const pycandle::Graph&, const pycandle::Node&);
  void keep(const pycandle::Graph&, ValueId, std::vector<Dim>);

  void evaluate_functional(const pycandle::Graph&, const pycandle::Node&);

  const SymbolRanges* ranges_;
  const OpTable* table_;
  PerValue<std::optional<Value>> values_;
  NodeId next_node_ = 0;
};

}  // namespace pycandle::onnx
