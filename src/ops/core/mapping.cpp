#include <iterator>
#include <map>

#include "ops/core/catalogue.h"

namespace pycandle {

std::vector<OpDef> merge_mappings(std::vector<OpDef> all) {
  std::vector<OpDef> merged;
  std::map<std::string, size_t> place;
  for (OpDef& op : all) {
    if (op.is_mapping) continue;
    place.emplace(op.name, merged.size());
    merged.push_back(std::move(op));
  }
  for (OpDef& op : all) {
    if (!op.is_mapping) continue;
    auto found = place.find(op.name);
    if (found == place.end()) internal_error("mapping(\"" + op.name + "\") has no definition in any family");
    OpDef& target = merged[found->second];
    std::move(op.aten.begin(), op.aten.end(), std::back_inserter(target.aten));
    std::move(op.samples.begin(), op.samples.end(), std::back_inserter(target.samples));
  }
  return merged;
}

}  // namespace pycandle
