// One node of a program as a C++ expression.
#pragma once

#include <functional>
#include <string>

#include "emit/cpp/text.h"
#include "emit/tree.h"

namespace pycandle::emit::cpp {

// What an expression needs to know of the code around it.
struct Surroundings {
  std::function<Expression(ValueId)> value;         // how a value is written here
  std::function<Expression(Dim)> dim;               // how a size is written here
  std::function<bool(ValueId)> is_used_once;
};

class ExpressionPrinter {
 public:
  ExpressionPrinter(const ModelTree& tree, const ModuleClass& made, const Surroundings& around)
      : tree_(&tree), class_(&made), around_(&around) {}

  Expression node(NodeId n) const;
  std::vector<Dim> written_dims(NodeId n) const;

 private:
  Expression operand(NodeId n, size_t i) const;
  std::string argument(NodeId n, size_t i) const { return operand(n, i).text; }
  std::string receiver(NodeId n) const { return operand(n, 0).within(Binds::unary); }
  std::string attribute(NodeId n, const std::string& name) const;
  Expression dim_at(NodeId n, const std::string& name, int32_t element, Dim d) const;
  const Setting* setting_at(NodeId, const std::string& name, int32_t element) const;
  std::string dims(NodeId n, const std::string& name) const;
  const Node& at(NodeId n) const { return tree_->program->graph.nodes[n]; }
  const Shape& shape(ValueId v) const { return tree_->program->graph.type(v).shape; }

  Expression infix(NodeId n, const char* symbol, Binds binds) const;
  Expression reshape(NodeId n) const;
  Expression transpose(NodeId n) const;
  Expression broadcast(NodeId n) const;
  Expression slice(NodeId n) const;
  Expression split(NodeId n) const;
  Expression arange(NodeId n) const;
  Expression reduction(NodeId n, const char* member) const;
  Expression of_cache(NodeId n) const;
  Expression functional(NodeId n) const;

  const ModelTree* tree_;
  const ModuleClass* class_;
  const Surroundings* around_;
};

}  // namespace pycandle::emit::cpp
