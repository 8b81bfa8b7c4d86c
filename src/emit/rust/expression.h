// One node of a program as an expression of Candle's, or a call of the crate `pycandle`.
#pragma once

#include <functional>
#include <string>

#include "emit/rust/text.h"
#include "emit/tree.h"
#include "ops/core/catalogue.h"

namespace pycandle::emit::rust {

// What an expression needs to know of the code around it.
struct Surroundings {
  std::function<Expression(ValueId)> value;
  std::function<std::string(Dim)> dim;              // as usize
  std::function<std::string()> device;              // &Device
  std::function<bool(ValueId)> is_used_once;
};

// Can the crate compute the call? What it cannot is decomposed first, or refused by name.
bool is_spelled(const Call&);

class ExpressionPrinter {
 public:
  ExpressionPrinter(const ModelTree& tree, const ModuleClass& made, const Surroundings& around)
      : tree_(&tree), class_(&made), around_(&around) {}

  Expression node(NodeId n) const;
  std::vector<Dim> written_dims(NodeId n) const;

 private:
  // A number or a size among the operands; empty when it is a tensor.
  std::string number(NodeId n, size_t i) const;
  std::string borrowed(NodeId n, size_t i) const;       // a tensor, with &
  std::string any(NodeId n, size_t i) const;            // a tensor with &, or a number
  std::string as_number(NodeId n, size_t i) const;
  std::string receiver(NodeId n, size_t i = 0) const;
  std::string field_at(NodeId n, const std::string& name, int32_t element) const;
  std::string dim_at(NodeId n, const std::string& name, int32_t element, Dim d) const;
  std::vector<std::string> dims(NodeId n, const std::string& name) const;
  std::string attribute(NodeId n, const std::string& name) const;
  std::string list(NodeId n, const std::string& name) const;
  const Node& at(NodeId n) const { return graph().nodes[n]; }
  const Graph& graph() const { return tree_->program->graph; }
  const Type& type(ValueId v) const { return graph().type(v); }
  bool is_tensor(NodeId n, size_t i) const { return std::holds_alternative<ValueId>(tree_->implicit->operand(n, i)); }
  ValueId tensor(NodeId n, size_t i) const { return std::get<ValueId>(tree_->implicit->operand(n, i)); }

  std::string arithmetic(NodeId n) const;
  std::string with_number(NodeId n, const std::string& sign) const;
  std::string compared(NodeId n) const;
  std::string reshape(NodeId n) const;
  std::string transpose(NodeId n) const;
  std::string broadcast(NodeId n) const;
  std::string slice(NodeId n) const;
  std::string split(NodeId n) const;
  std::string reduction(NodeId n) const;
  std::string options(NodeId n, const std::string& fields) const;
  std::string from_template(NodeId n, const std::string& text) const;
  std::string filled(NodeId n, const std::string& place) const;

  const ModelTree* tree_;
  const ModuleClass* class_;
  const Surroundings* around_;
};

}  // namespace pycandle::emit::rust
