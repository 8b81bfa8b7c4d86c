#include "ir/evaluation.h"

#include <fmt/format.h>

namespace pycandle {

namespace {

[[noreturn]] void no_such(const Node& node, const char* what, std::string_view name) {
  internal_error(fmt::format("{} has no {} '{}'", node.op->name, what, name));
}

template <class T> const T& attribute_as(const Evaluation& e, std::string_view name) {
  const Attribute& attribute = e.attribute(name);
  if (const T* value = std::get_if<T>(&attribute)) return *value;
  internal_error(fmt::format("attribute '{}' of {} is {}: of another kind than its evaluator thinks", name, e.node().op->name,
                             to_string(attribute)));
}

}  // namespace

Evaluation::Evaluation(const Node& node, const Graph& graph, std::vector<const Array*> operands, const Bindings& bindings,
                       bool f64_mode, const RegionRunner* run_region)
    : node_(&node),
      graph_(&graph),
      operands_(std::move(operands)),
      bindings_(&bindings),
      f64_mode_(f64_mode),
      run_region_(run_region) {
  require(operands_.size() == node.operands.size(), "an evaluation has an array (or nullptr) for each operand of its node");
}

const Array& Evaluation::array(std::string_view name) const {
  const Array* found = maybe(name);
  if (!found) internal_error(fmt::format("operand '{}' of {} is absent", name, node_->op->name));
  return *found;
}

const Array* Evaluation::maybe(std::string_view name) const {
  int index = node_->op->operand_index(name);
  if (index < 0 || static_cast<size_t>(index) >= node_->op->fixed_operands()) no_such(*node_, "operand", name);
  return operands_.at(index);
}

std::vector<const Array*> Evaluation::arrays(std::string_view name) const {
  size_t fixed = node_->op->fixed_operands();
  if (!node_->op->has_variadic() || node_->op->operand_specs[fixed].name != name) no_such(*node_, "variadic operand", name);
  return {operands_.begin() + static_cast<std::ptrdiff_t>(fixed), operands_.end()};
}

const Attribute& Evaluation::attribute(std::string_view name) const {
  for (const auto& [key, value] : node_->attributes) {
    if (key == name) return value;
  }
  no_such(*node_, "attribute", name);
}

bool Evaluation::has(std::string_view name) const {
  const OpDef& op = *node_->op;
  if (op.attribute_index(name) >= 0) return !std::holds_alternative<std::monostate>(attribute(name));
  if (op.has_variadic() && op.operand_specs.back().name == name) return !arrays(name).empty();
  return maybe(name) != nullptr;
}

bool Evaluation::boolean(std::string_view name) const { return attribute_as<bool>(*this, name); }
int64_t Evaluation::integer(std::string_view name) const {
  if (const Dim* dim = std::get_if<Dim>(&attribute(name))) return dim->evaluate(*bindings_);
  return attribute_as<int64_t>(*this, name);
}
double Evaluation::number(std::string_view name) const { return attribute_as<double>(*this, name); }
Scalar Evaluation::scalar(std::string_view name) const { return scalar_of(attribute(name)); }
const std::string& Evaluation::string(std::string_view name) const { return attribute_as<std::string>(*this, name); }
DType Evaluation::dtype(std::string_view name) const { return attribute_as<DType>(*this, name); }
const Ints& Evaluation::integers(std::string_view name) const { return attribute_as<Ints>(*this, name); }
Sizes Evaluation::sizes(std::string_view name) const { return evaluate(attribute_as<Dims>(*this, name), *bindings_); }

Sizes Evaluation::out_shape(size_t result) const { return evaluate(graph_->type(node_->results.at(result)).shape, *bindings_); }
DType Evaluation::out_dtype(size_t result) const { return stored(graph_->type(node_->results.at(result)).dtype); }

DType Evaluation::stored(DType logical) const {
  if (!f64_mode_ || !is_inexact(logical)) return logical;
  return is_complex(logical) ? DType::c128 : DType::f64;
}

std::vector<Array> Evaluation::run_region(size_t index, std::vector<Array> inputs) const {
  if (!run_region_) internal_error(fmt::format("{} has regions and nobody to run them", node_->op->name));
  return (*run_region_)(node_->regions.at(index), std::move(inputs));
}

}  // namespace pycandle
