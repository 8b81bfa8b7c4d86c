#include "import/control_flow.h"

#include <fmt/format.h>

#include "base/error.h"

namespace pycandle {
namespace {

// The tensors of an argument list; sizes among them are dims inside the bodies too and need no operand.
Values tensors_of(AtenCall& c, std::string_view name) {
  Values values;
  if (!c.has_argument(name)) return values;
  for (const Argument* entry : c.list(name)) {
    if (auto* tensor = std::get_if<Argument::Tensor>(&entry->value)) {
      values.push_back(tensor->value);
    } else if (!std::holds_alternative<Dim>(entry->value) && !std::holds_alternative<int64_t>(entry->value)) {
      c.unsupported(fmt::format("something other than tensors and sizes in '{}'", name));
    }
  }
  return values;
}

void require_inputs(const Graph& body, size_t count, const char* which) {
  if (body.inputs.size() != count)
    throw Error(ErrorCode::bad_input, fmt::format("the {} takes another number of tensors than it is given", which))
        .expected(fmt::format("{}", count))
        .found(fmt::format("{}", body.inputs.size()));
}

Values joined(Values a, const Values& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Values first(Values values, size_t count) {
  values.resize(std::min(values.size(), count));
  return values;
}

Values import_cond(AtenCall& c, SubgraphImporter& import) {
  ValueId condition = c.b.cast(c.tensor("pred"), DType::boolean);
  condition = c.b.reshape(condition, {});
  Graph yes = import.import_subgraph(c.subgraph("true_fn")), no = import.import_subgraph(c.subgraph("false_fn"));
  Values operands = tensors_of(c, "operands");
  require_inputs(yes, operands.size(), "branch true_fn");
  require_inputs(no, operands.size(), "branch false_fn");
  std::vector<Graph> bodies;
  bodies.push_back(std::move(yes));
  bodies.push_back(std::move(no));
  return c.b.create_all("cond", joined({condition}, operands), {}, std::move(bodies));
}

// What the loop reads besides its carries is carried along unchanged.
Values import_while(AtenCall& c, SubgraphImporter& import) {
  Graph condition = import.import_subgraph(c.subgraph("cond_fn")), body = import.import_subgraph(c.subgraph("body_fn"));
  Values carried = tensors_of(c, "carried_inputs"), additional = tensors_of(c, "additional_inputs");
  size_t count = carried.size();
  require_inputs(condition, count + additional.size(), "condition cond_fn");
  require_inputs(body, count + additional.size(), "body body_fn");
  for (size_t i = count; i < body.inputs.size(); ++i) body.outputs.push_back(body.inputs[i]);
  std::vector<Graph> bodies;
  bodies.push_back(std::move(condition));
  bodies.push_back(std::move(body));
  return first(c.b.create_all("while_loop", joined(carried, additional), {}, std::move(bodies)), count);
}

Values import_scan(AtenCall& c, SubgraphImporter& import) {
  Graph body = import.import_subgraph(c.subgraph("combine_fn"));
  Values init = tensors_of(c, "init"), xs = tensors_of(c, "xs"), additional = tensors_of(c, "additional_inputs");
  bool reverse = c.has_argument("reverse") && c.boolean("reverse");
  if (c.has_argument("dim") && c.integer("dim") != 0) c.unsupported("dim other than 0");
  size_t carries = init.size();
  require_inputs(body, carries + xs.size() + additional.size(), "body combine_fn");
  if (xs.empty() || body.outputs.size() < carries) c.unsupported("nothing to scan over");
  // torch's order is carries, xs, others; here others are carries too.
  Values inputs(body.inputs.begin(), body.inputs.begin() + static_cast<std::ptrdiff_t>(carries));
  Values others(body.inputs.begin() + static_cast<std::ptrdiff_t>(carries + xs.size()), body.inputs.end());
  Values slices(body.inputs.begin() + static_cast<std::ptrdiff_t>(carries),
                body.inputs.begin() + static_cast<std::ptrdiff_t>(carries + xs.size()));
  body.inputs = joined(joined(inputs, others), slices);
  for (size_t i = 0; i < body.inputs.size(); ++i) body.values[body.inputs[i]].index = static_cast<int32_t>(i);
  body.outputs.insert(body.outputs.begin() + static_cast<std::ptrdiff_t>(carries), others.begin(), others.end());
  Dim length = c.b.shape(xs[0]).at(0);
  std::vector<Graph> bodies;
  bodies.push_back(std::move(body));
  Values results = c.b.create_all(
      "scan", joined(joined(init, additional), xs),
      {{"carries", static_cast<int64_t>(carries + additional.size())}, {"length", length}, {"reverse", reverse}},
      std::move(bodies));
  results.erase(results.begin() + static_cast<std::ptrdiff_t>(carries),
                results.begin() + static_cast<std::ptrdiff_t>(carries + additional.size()));
  return results;
}

}  // namespace

bool is_control_flow(std::string_view op) {
  return op == "higher_order.cond" || op == "higher_order.while_loop" || op == "higher_order.scan";
}

Values import_control_flow(AtenCall& c, SubgraphImporter& import) {
  if (c.overload() == "higher_order.cond") return import_cond(c, import);
  if (c.overload() == "higher_order.while_loop") return import_while(c, import);
  return import_scan(c, import);
}

}  // namespace pycandle
