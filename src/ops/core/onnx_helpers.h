// What the mappings of ONNX's operators share.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ops/core/aten_call.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {

using OnnxFormula = ValueId (*)(AtenCall&);
using OnnxFormulas = Values (*)(AtenCall&);

// Overloads of `op` with one result, or several.
inline OpDef onnx_mapped(const char* op, std::initializer_list<const char*> overloads, OnnxFormula f) {
  OpDef def = mapping(op);
  for (const char* overload : overloads) def.from_aten_call(overload, [f](AtenCall& c) -> Values { return {f(c)}; });
  return def;
}
inline OpDef onnx_mapped_all(const char* op, std::initializer_list<const char*> overloads, OnnxFormulas f) {
  OpDef def = mapping(op);
  for (const char* overload : overloads) def.from_aten_call(overload, f);
  return def;
}

// A TensorProto.DataType as an attribute. 0 and none: nothing is said.
DType onnx_dtype(AtenCall&, const char* attribute);
std::optional<DType> maybe_onnx_dtype(AtenCall&, const char* attribute);

// Symbols for sizes that data decides. The reader of a file lends them to the mapping that it calls; a manifest has them in the
// recorded types.
class DataSizes {
 public:
  explicit DataSizes(std::function<Dim()> new_symbol);
  DataSizes(const DataSizes&) = delete;
  DataSizes& operator=(const DataSizes&) = delete;
  ~DataSizes();
  static Dim of(AtenCall&, size_t result, size_t axis);
};

// The number that a value is in the program itself: a constant of rank 0.
inline std::optional<Scalar> number_in_program(const Builder& b, const Graph& g, ValueId v) {
  const NodeId node = g.values[v].node;
  if (b.rank(v) != 0 || node == kNoNode || g.nodes[node].op->name != "constant") return std::nullopt;
  return scalar_of(g.nodes[node].attributes.at(0).second);
}

// Negative indices count from the end.
inline ValueId from_either_end(Builder& b, ValueId indices, Dim size) {
  if (b.dtype(indices) != DType::i64) indices = b.cast(indices, DType::i64);
  return b.select(b.compare("lt", indices, 0.0), b.add(indices, b.dim_value(size)), indices);
}

// [B, S, heads * D] → [B, heads, S, D], and back.
inline ValueId onnx_split_heads(Builder& b, ValueId x, int64_t heads) {
  const Shape s = b.shape(x);
  return b.transpose(b.reshape(x, {s[0], s[1], Dim(heads), floordiv(s[2], Dim(heads))}), {0, 2, 1, 3});
}
inline ValueId onnx_merge_heads(Builder& b, ValueId x) {
  const Shape s = b.shape(x);
  return b.reshape(b.transpose(x, {0, 2, 1, 3}), {s[0], s[2], s[1] * s[3]});
}

}  // namespace pycandle
