#include "params/derived.h"

#include <atomic>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

namespace pycandle {
namespace {

// Everyone who has the array holds the entry; the cache holds one more.
struct Entry {
  std::mutex making;
  std::atomic<bool> is_made{false};
  Array array;
  size_t bytes = 0;  // with the cache's mutex
};

struct Cache {
  std::mutex mutex;
  std::map<DerivedKey, std::shared_ptr<Entry>> entries;
  std::list<DerivedKey> order;  // the one asked for last at the end
  size_t budget = size_t{256} << 20;
  size_t made = 0, found = 0;

  static bool is_unused(const std::shared_ptr<Entry>& entry) { return entry.use_count() == 1; }

  // The caller has the mutex.
  void drop_beyond_budget() {
    size_t unused = 0;
    for (const auto& [key, entry] : entries) {
      if (is_unused(entry)) unused += entry->bytes;
    }
    for (auto it = order.begin(); it != order.end() && unused > budget;) {
      const auto found_entry = entries.find(*it);
      if (!is_unused(found_entry->second)) {
        ++it;
        continue;
      }
      unused -= found_entry->second->bytes;
      entries.erase(found_entry);
      it = order.erase(it);
    }
  }
};

// Never destroyed: arrays may outlive every static object.
Cache& cache() {
  static auto* const instance = new Cache;
  return *instance;
}

}  // namespace

Array derived_parameter(const DerivedKey& key, const std::function<Array()>& make) {
  Cache& all = cache();
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(all.mutex);
    all.drop_beyond_budget();
    std::shared_ptr<Entry>& slot = all.entries[key];
    if (!slot) slot = std::make_shared<Entry>();
    all.order.remove(key);
    all.order.push_back(key);
    entry = slot;
  }
  const std::lock_guard lock(entry->making);
  const bool is_new = !entry->is_made;
  if (is_new) entry->array = make();  // what it throws leaves an entry that the next one tries again
  entry->is_made = true;
  {
    const std::lock_guard counting(all.mutex);
    ++(is_new ? all.made : all.found);
    entry->bytes = entry->array.bytes();
  }
  return Array(entry->array.dtype(), entry->array.shape(), entry->array.data(), entry);
}

bool is_derived(const DerivedKey& key) {
  Cache& all = cache();
  const std::lock_guard lock(all.mutex);
  const auto found = all.entries.find(key);
  return found != all.entries.end() && found->second->is_made;
}

DerivedUse derived_use() {
  Cache& all = cache();
  const std::lock_guard lock(all.mutex);
  DerivedUse use;
  for (const auto& [key, entry] : all.entries) {
    ++use.count;
    use.bytes += entry->bytes;
    if (Cache::is_unused(entry)) use.unused_bytes += entry->bytes;
  }
  use.made = all.made;
  use.found = all.found;
  return use;
}

void set_derived_budget(size_t bytes) {
  Cache& all = cache();
  const std::lock_guard lock(all.mutex);
  all.budget = bytes;
  all.drop_beyond_budget();
}

}  // namespace pycandle
