#include "emit/results.h"

#include <algorithm>

#include "emit/names.h"
#include "emit/value_names.h"

namespace pycandle::emit {

bool draws_numbers(const Graph& g) {
  return std::any_of(g.nodes.begin(), g.nodes.end(), [](const Node& node) {
    return node.op->is_random || std::any_of(node.regions.begin(), node.regions.end(), draws_numbers);
  });
}

bool returns_struct(const ModuleClass& made) {
  const std::vector<std::string>& names = made.output_names;
  if (names.size() == 1 && names[0].empty()) return false;
  if (names.size() == 1 && made.call != 0) return false;  // one of several: nothing to compare it with
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != std::to_string(i)) return true;
  }
  return false;
}

bool returns_tuple(const ModuleClass& made) {
  if (returns_struct(made)) return false;
  return made.outputs.size() != 1 || (made.call == 0 && !made.output_names[0].empty());
}

std::vector<std::string> result_fields(const ModelTree& tree, const ModuleClass& made) {
  const ValueNames names(tree, made);
  Scope scope;
  for (const char* name : {"f", "F", "each", "Tensor", "Output"}) scope.reserve(name);  // what the struct itself uses
  std::vector<std::string> fields;
  for (size_t i = 0; i < made.outputs.size(); ++i) {
    const std::string& path = made.output_names[i];
    const bool is_key = !path.empty() && !path.starts_with("inner.") &&
                        path.find_first_not_of("0123456789.") != std::string::npos;
    fields.push_back(scope.take(is_key ? std::vector<std::string>{identifier(last_part(path)), identifier(path)}
                                       : std::vector<std::string>{names.of(made.outputs[i])}));
  }
  return fields;
}

}  // namespace pycandle::emit
