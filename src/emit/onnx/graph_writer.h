// Writes the nodes of a program as those of an ONNX graph. Broadcasts and constants are written where they are needed: ONNX's
// arithmetic broadcasts itself.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "emit/onnx/model.h"
#include "ir/op_def.h"

namespace pycandle::emit::onnx {

// What the graphs of one model share.
struct Writing {
  const Program& program;
  int opset;
  std::set<std::string> used = {};            // names
  std::map<std::string, int> counts = {};     // of a name that is used, and numbered from then on
  SymbolRanges ranges = {};
};

class GraphWriter {
 public:
  GraphWriter(Writing& writing, const pycandle::Graph& source, const GraphWriter* outer = nullptr)
      : writing_(&writing), source_(&source), outer_(outer) {}

  const pycandle::Graph& source() const { return *source_; }
  int opset() const { return writing_->opset; }
  OnnxGraph& graph() { return graph_; }
  Writing& writing() { return *writing_; }
  std::string unique(const std::string& wanted);

  // ---- values of the program
  void bind(ValueId, std::string name);       // it has this name from now on
  std::string name(ValueId);                  // what is written late is written now
  const Type& type(ValueId v) const { return source_->type(v); }
  void write_all();                           // every node
  // Operands of arithmetic, which broadcasts: with axes of size 1, or fewer axes, where that gives the result's shape.
  Names broadcasting(const Values&, const Shape& result);

  // ---- nodes
  Names nodes(const std::string& op, Names inputs, OnnxAttributes attributes = {}, size_t outputs = 1);
  std::string node(const std::string& op, Names inputs, OnnxAttributes attributes = {});
  // The same over values of this dtype: where ONNX Runtime has no kernel for it, in a wider one. The result is cast back to it,
  // unless it is another kind of value (is_same = false).
  std::string run(const std::string& op, Names inputs, DType, OnnxAttributes attributes = {}, bool is_same = true);
  std::string cast(const std::string& x, DType from, DType to);

  // ---- constants
  std::string scalar(const Scalar&, DType);
  std::string ints(const Ints&);              // i64 [n]
  std::string tensor(const Array&, const std::string& hint);

  // ---- sizes
  std::string dim(Dim);                       // i64 [1]
  std::string shape(const Shape&);            // i64 [n]
  std::string reshape(const std::string& x, const Shape& from, const Shape& to);
  std::string unsqueeze(const std::string& x, const Ints& axes);
  std::string squeeze(const std::string& x, const Ints& axes);
  std::string transpose(const std::string& x, const Ints& permutation);
  std::string slice(const std::string& x, int64_t axis, Dim start, Dim stop);

  bool may_be(Dim d, int64_t value) const;    // can the size be this?
  const SymbolRanges& ranges() const { return writing_->ranges; }

 private:
  struct Small {
    std::string name;
    Shape shape;
  };
  Small small(ValueId);
  bool is_late(ValueId) const;
  std::string write_late(ValueId);
  std::string constant(ValueId);
  std::string symbol(const std::string&);
  std::string written_dim(Dim);
  std::string place() const;
  std::vector<std::pair<std::string, std::string>> metadata() const;
  const std::string* known(const std::string& dim) const;

  Writing* writing_;
  const pycandle::Graph* source_;
  const GraphWriter* outer_;
  OnnxGraph graph_;
  std::map<ValueId, std::string> names_;
  std::map<std::string, std::pair<std::string, int64_t>> symbols_;  // a value and the axis whose size it is
  std::map<std::string, std::string> dims_, constants_;             // by text
  const Origin* origin_ = nullptr;            // of the node that is being written
  std::string op_;                            // its op
};

}  // namespace pycandle::emit::onnx
