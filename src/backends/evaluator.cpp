#include "backends/evaluator.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "backends/streams.h"
#include "base/error.h"
#include "ir/evaluation.h"

namespace pycandle {

std::vector<Array> Evaluator::run(const Graph& g, const Node& node, const std::vector<Array>& operands) {
  std::vector<const Array*> pointers;
  for (size_t i = 0; i < operands.size(); ++i) pointers.push_back(node.operands[i] == kNoValue ? nullptr : &operands[i]);
  const RegionRunner runner = [this](const Graph& region, std::vector<Array> inputs) {
    return run_region(region, std::move(inputs));
  };
  Evaluation evaluation(node, g, std::move(pointers), bindings, false, &runner);
  if (node.op->is_random) evaluation.seed = mixed(seed, (*random_ops)++);
  std::vector<Array> results = node.op->evaluate(evaluation);
  require(results.size() == node.results.size(), "an evaluator gives every result of its op");
  for (size_t r = 0; r < results.size(); ++r) {
    const Type& type = g.type(node.results[r]);
    if (results[r].dtype() == type.dtype && results[r].shape() == evaluate(type.shape, bindings)) continue;
    internal_error(fmt::format("the evaluator of {} gave {}{} where its type is {}", node.op->name, name_of(results[r].dtype()),
                               to_string(results[r].shape()), type.text()));
  }
  return results;
}

std::vector<Array> Evaluator::run_region(const Graph& region, std::vector<Array> inputs) {
  require(inputs.size() == region.inputs.size(), "a region gets an array for each of its inputs");
  PerValue<Array> values(region.values.size());
  for (size_t i = 0; i < inputs.size(); ++i) values[region.inputs[i]] = std::move(inputs[i]);
  std::vector<Array> operands;
  for (const Node& node : region.nodes) {
    operands.clear();
    for (const ValueId v : node.operands) operands.push_back(v == kNoValue ? Array() : values[v]);
    std::vector<Array> results = run(region, node, operands);
    for (size_t r = 0; r < results.size(); ++r) values[node.results[r]] = std::move(results[r]);
  }
  std::vector<Array> outputs;
  for (const ValueId v : region.outputs) outputs.push_back(values[v]);
  return outputs;
}

Array own_memory(Array array, const std::vector<Array>& others) {
  const auto begin = reinterpret_cast<uintptr_t>(array.data());
  for (const Array& other : others) {
    const auto from = reinterpret_cast<uintptr_t>(other.data());
    if (begin < from || begin >= from + other.bytes()) continue;
    Array copy(array.dtype(), array.shape());
    std::memcpy(copy.mutable_data(), array.data(), array.bytes());
    return copy;
  }
  return array;
}

}  // namespace pycandle
