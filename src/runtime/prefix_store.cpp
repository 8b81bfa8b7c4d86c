#include "runtime/prefix_store.h"

#include <algorithm>

#include "base/error.h"

namespace pycandle {
namespace {

int64_t shared(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

void PrefixStore::keep(const Cache& cache, int64_t sequence, const std::vector<int64_t>& tokens) {
  Cache one = cache.fork({sequence});
  const auto length = static_cast<int64_t>(tokens.size());
  if (one.lengths()[0] != length)
    throw Error(ErrorCode::usage, "the tokens are not those of the sequence")
        .expected(std::to_string(one.lengths()[0]) + " tokens")
        .found(std::to_string(length));
  if (length == 0) return;
  one = decoder_.resized(one, length);
  const std::lock_guard lock(mutex_);
  // What is a prefix of the new one is in it already.
  entries_.remove_if([&](const Entry& e) { return shared(e.tokens, tokens) == static_cast<int64_t>(e.tokens.size()); });
  const bool is_known = std::any_of(entries_.begin(), entries_.end(),
                                    [&](const Entry& e) { return shared(tokens, e.tokens) == length; });
  if (!is_known) entries_.push_front({tokens, std::move(one)});
  size_t total = 0;
  for (auto e = entries_.begin(); e != entries_.end();) {
    total += e->cache.bytes();
    e = total > most_ ? entries_.erase(e) : std::next(e);
  }
}

PrefixStore::Start PrefixStore::start(const std::vector<int64_t>& prompt, int64_t capacity) {
  if (prompt.empty()) throw Error(ErrorCode::usage, "the prompt is empty").expected("at least one token");
  Start best;
  {
    const std::lock_guard lock(mutex_);
    auto found = entries_.end();
    for (auto e = entries_.begin(); e != entries_.end(); ++e) {
      const int64_t known = std::min(shared(e->tokens, prompt), static_cast<int64_t>(prompt.size()) - 1);
      if (known <= best.known || !e->cache.can_truncate(0, known)) continue;
      best.known = known;
      found = e;
    }
    if (found != entries_.end()) {
      best.cache = found->cache;
      entries_.splice(entries_.begin(), entries_, found);
    }
  }
  if (best.known == 0) return {decoder_.new_cache(1, capacity), 0};
  best.cache.truncate(0, best.known);
  best.cache = decoder_.resized(best.cache, capacity);
  return best;
}

size_t PrefixStore::bytes() const {
  const std::lock_guard lock(mutex_);
  size_t total = 0;
  for (const Entry& e : entries_) total += e.cache.bytes();
  return total;
}

size_t PrefixStore::size() const {
  const std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace pycandle
