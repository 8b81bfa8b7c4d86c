#include "ir/builder.h"

#include <fmt/format.h>

#include <algorithm>

namespace pycandle {

namespace {

// Pads absent trailing operands and checks the rest against the definition.
void complete_operands(const OpDef& op, const Graph& graph, Values& operands) {
  size_t fixed = op.fixed_operands();
  if (operands.size() > fixed && !op.has_variadic()) {
    throw Error(ErrorCode::bad_input, fmt::format("{} has too many operands", op.name))
        .expected(fmt::format("at most {}", fixed))
        .found(std::to_string(operands.size()))
        .op(op.name);
  }
  operands.resize(std::max(operands.size(), fixed), kNoValue);
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i] == kNoValue) {
      const OperandSpec& spec = op.operand_specs[std::min(i, fixed)];
      if (spec.kind == OperandSpec::Kind::optional) continue;
      throw Error(ErrorCode::bad_input, fmt::format("operand '{}' of {} is missing", spec.name, op.name)).op(op.name);
    }
    if (!graph.values.has(operands[i])) {
      internal_error(fmt::format("operand {} of {} is %{}, which is not in the graph", i, op.name, operands[i]));
    }
  }
}

std::string attribute_names(const OpDef& op) {
  std::string names;
  for (const AttrSpec& spec : op.attr_specs) names += (names.empty() ? "" : ", ") + spec.name;
  return names.empty() ? "none" : names;
}

Attribute checked_attribute(const OpDef& op, const AttrSpec& spec, const Attribute& given) {
  if (spec.optional && std::holds_alternative<std::monostate>(given)) return given;
  if (auto value = converted(given, spec.kind)) return *std::move(value);
  throw Error(ErrorCode::bad_input, fmt::format("attribute '{}' of {} is of the wrong kind", spec.name, op.name))
      .expected(std::string(name_of(spec.kind)))
      .found(to_string(given))
      .op(op.name);
}

// Every attribute of the definition, in its order: given, or by default.
Attributes complete_attributes(const OpDef& op, Attributes given) {
  Attributes result;
  result.reserve(op.attr_specs.size());
  size_t used = 0;
  for (const AttrSpec& spec : op.attr_specs) {
    auto named = [&](const auto& entry) { return entry.first == spec.name; };
    auto found = std::find_if(given.begin(), given.end(), named);
    if (found != given.end()) {
      if (std::find_if(found + 1, given.end(), named) != given.end()) {
        throw Error(ErrorCode::bad_input, fmt::format("attribute '{}' of {} is given twice", spec.name, op.name)).op(op.name);
      }
      result.emplace_back(spec.name, checked_attribute(op, spec, found->second));
      ++used;
    } else if (spec.default_value) {
      result.emplace_back(spec.name, checked_attribute(op, spec, *spec.default_value));
    } else {
      throw Error(ErrorCode::bad_input, fmt::format("attribute '{}' of {} is missing", spec.name, op.name))
          .expected(fmt::format("a value of kind {}", name_of(spec.kind)))
          .op(op.name);
    }
  }
  if (used == given.size()) return result;
  auto unknown = std::find_if(given.begin(), given.end(), [&](const auto& entry) { return op.attribute_index(entry.first) < 0; });
  throw Error(ErrorCode::bad_input, fmt::format("{} has no attribute '{}'", op.name, unknown->first))
      .expected(attribute_names(op))
      .found(unknown->first)
      .op(op.name);
}

// One place for all ops: whatever the attributes say, no result has a size below zero.
void check_sizes(const std::vector<Type>& types, const Call& call) {
  for (const Type& type : types) {
    for (Dim size : type.shape) {
      if (!size.is_number() || size.number() >= 0) continue;
      throw Error(ErrorCode::bad_input, fmt::format("a result of {} has a negative size", call.op().name))
          .expected("sizes of 0 or more")
          .found(fmt::format("{} from {}", type.text(), call.text()));
    }
  }
}

}  // namespace

Values Builder::create_all(std::string_view name, Values operands, Attributes attributes, std::vector<Graph> regions) {
  const OpDef& op = table_->at(name);
  complete_operands(op, *graph_, operands);
  attributes = complete_attributes(op, std::move(attributes));
  if (static_cast<int>(regions.size()) != op.region_count) {
    throw Error(ErrorCode::bad_input, fmt::format("{} has the wrong number of regions", op.name))
        .expected(std::to_string(op.region_count))
        .found(std::to_string(regions.size()))
        .op(op.name);
  }
  Call call(op, *graph_, operands, attributes, regions, this);
  std::vector<Type> types;
  try {
    for (const Constraint& constraint : op.constraint_list) {
      if (constraint.holds(call)) continue;
      throw Error(ErrorCode::bad_input, fmt::format("constraint {} of {} does not hold", constraint.name, op.name))
          .expected(constraint.text)
          .found(call.text());
    }
    types = op.infer_types(call);
    check_sizes(types, call);
  } catch (Error& error) {
    error.op(op.name);
    throw;
  }
  Node node;
  node.op = &op;
  node.operands = std::move(operands);
  node.attributes = std::move(attributes);
  node.regions = std::move(regions);
  node.origin = origin;
  return graph_->add_node(std::move(node), std::move(types)).results;
}

ValueId Builder::create(std::string_view op, Values operands, Attributes attributes, std::vector<Graph> regions) {
  Values results = create_all(op, std::move(operands), std::move(attributes), std::move(regions));
  if (results.size() != 1) internal_error(fmt::format("{} has {} results where one is wanted", op, results.size()));
  return results[0];
}

bool Builder::check(Dim left, Dim right, std::string what) {
  Tri answer = ranges_ ? equal(left, right, *ranges_) : equal(left, right);
  if (answer == Tri::unknown && checks_) {
    // One check serves however many nodes need it.
    bool known = std::any_of(checks_->begin(), checks_->end(), [&](const Check& c) {
      return (c.left == left && c.right == right) || (c.left == right && c.right == left);
    });
    if (!known) checks_->push_back({left, right, std::move(what), origin});
  }
  return answer != Tri::no;
}

}  // namespace pycandle
