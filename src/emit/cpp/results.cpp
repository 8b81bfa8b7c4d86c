#include "emit/cpp/results.h"

#include <fmt/format.h>

#include "emit/cpp/text.h"

namespace pycandle::emit::cpp {

std::string type_of(const ModelTree& tree, const Use& use) {
  if (use.nn) return "nn::" + use.nn->name;
  if (use.module_class >= 0) return tree.classes[use.module_class].name;
  std::vector<std::string> types;
  for (const Use& part : use.sequence) types.push_back(type_of(tree, part));
  return fmt::format("nn::Sequential<{}>", joined(types));
}

}  // namespace pycandle::emit::cpp
