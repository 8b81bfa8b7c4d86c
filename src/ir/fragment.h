// What a value is computed from, read backwards: for ops that look for themselves in a graph (OpDef::recognised_at).
//
//   Fragment f(graph, y);
//   f.is(y, "mul"), f.operand(y, 0), f.number(v), f.nearest(y, {"rsqrt", "sqrt"}), f.entries()
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

#include "ir/op_def.h"

namespace pycandle {

class Fragment {
 public:
  Fragment(const Graph& graph, ValueId result) : graph_(&graph), result_(result) {}

  const Graph& graph() const { return *graph_; }
  ValueId result() const { return result_; }
  const Type& type(ValueId v) const { return graph_->type(v); }
  const Shape& shape(ValueId v) const { return type(v).shape; }

  const Node* node(ValueId v) const;                         // nullptr for an input of the graph
  bool is(ValueId v, std::string_view op) const;
  bool is_one_of(ValueId v, std::initializer_list<std::string_view> ops) const;
  ValueId operand(ValueId v, size_t i) const;                // kNoValue when there is none
  const Attribute& attribute(ValueId v, std::string_view name) const;
  // The number that every element of v is, behind casts, reshapes and broadcasts.
  std::optional<double> number(ValueId v) const;
  // For an op of two operands of which one is a number: that number, and the other operand.
  std::optional<std::pair<double, ValueId>> with_number(ValueId v) const;
  // v behind nodes of these ops, following their first operands.
  ValueId behind(ValueId v, std::initializer_list<std::string_view> ops) const;
  ValueId behind_broadcasts(ValueId v) const { return behind(v, {"broadcast", "reshape"}); }
  // The nearest value of one of these ops, breadth first from `from`; kNoValue when none is near.
  ValueId nearest(ValueId from, std::initializer_list<std::string_view> ops) const;

  // Values on which, with numbers, all that the result is computed from depends: nearest first. Not through products,
  // lookups and the like.
  const Values& entries() const;
  Values entries_of(ValueId from) const;

 private:
  const Graph* graph_;
  ValueId result_;
  mutable std::optional<Values> entries_;
};

}  // namespace pycandle
