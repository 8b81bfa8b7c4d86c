#include "emit/caches.h"

#include <algorithm>

#include "emit/names.h"

namespace pycandle::emit {
namespace {

// A class that keeps nothing but what one of its modules keeps takes that module's part.
const CacheStruct::Part* only_part(const ModuleClass& made, const CacheStruct& own) {
  return made.rows.empty() && own.parts.size() == 1 && !own.parts[0].is_list ? &own.parts[0] : nullptr;
}

}  // namespace

void find_caches(ModelTree& tree) {
  if (tree.calls->cache_lengths() == kNoValue) return;
  Scope scope;
  for (const ModuleClass& c : tree.classes) scope.reserve(c.name);
  for (const char* name : {"Cache", "CacheRows", "CacheList"}) scope.reserve(name);
  for (ModuleClass& c : tree.classes) {
    std::sort(c.rows.begin(), c.rows.end(), [](const TensorField& a, const TensorField& b) { return a.value < b.value; });
    CacheStruct own{{}, c.name, c.rows, {}};
    for (const Child& child : c.children) {
      const std::string& type = child.use.module_class < 0 ? std::string() : tree.classes[child.use.module_class].cache_type;
      if (!type.empty()) own.parts.push_back({child.name, type, child.is_list});
    }
    if (own.rows.empty() && own.parts.empty()) continue;
    for (size_t i = 0; i < own.rows.size(); ++i) {
      const auto has_name = [&](const CacheStruct::Part& part) { return part.name == own.rows[i].name; };
      if (std::any_of(own.parts.begin(), own.parts.end(), has_name)) own.rows[i].name = c.rows[i].name += "_rows";
    }
    c.hands_cache_on = only_part(c, own) != nullptr;
    c.cache_type = c.hands_cache_on ? own.parts[0].type : scope.take(c.name + "Cache");
    if (c.hands_cache_on) continue;
    own.name = c.cache_type;
    tree.caches.push_back(std::move(own));
  }
  // The model's part is the cache.
  const std::string whole = tree.model().cache_type;
  for (ModuleClass& c : tree.classes) {
    if (c.cache_type == whole) c.cache_type = "Cache";
  }
  for (CacheStruct& cache : tree.caches) {
    if (cache.name == whole) {
      cache.name = "Cache";
      cache.of = tree.model().name;
    }
  }
}

}  // namespace pycandle::emit
