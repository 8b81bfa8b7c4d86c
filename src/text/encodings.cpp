#include "text/encodings.h"

#include <algorithm>

#include "base/error.h"

namespace pycandle::text {
namespace {

template <typename T> void keep_range(std::vector<T>& list, size_t begin, size_t end) {
  list.erase(list.begin() + static_cast<ptrdiff_t>(end), list.end());
  list.erase(list.begin(), list.begin() + static_cast<ptrdiff_t>(begin));
}

void shorten(Encoding& e, size_t length, bool from_left) {
  if (length >= e.size()) return;
  const size_t begin = from_left ? e.size() - length : 0, end = begin + length;
  keep_range(e.ids, begin, end);
  keep_range(e.offsets, begin, end);
  keep_range(e.type_ids, begin, end);
  keep_range(e.words, begin, end);
  keep_range(e.special_tokens_mask, begin, end);
  keep_range(e.attention_mask, begin, end);
  std::erase_if(e.spelt, [&](const auto& s) { return s.first < begin || s.first >= end; });
  for (auto& s : e.spelt) s.first -= static_cast<uint32_t>(begin);
}

// The lengths of two texts that are together at most `longest`: the longer one gives way first.
std::pair<size_t, size_t> longest_first(size_t first, size_t second, size_t longest) {
  const bool swapped = first > second;
  size_t shorter = std::min(first, second);
  size_t other = shorter > longest ? shorter : std::max(shorter, longest - shorter);
  if (shorter + other > longest) {
    shorter = longest / 2;
    other = shorter + longest % 2;
  }
  return swapped ? std::pair{other, shorter} : std::pair{shorter, other};
}

}  // namespace

void push(Encoding& e, TokenId id, TokenOffsets offsets, uint32_t type_id, int32_t word, bool special, bool attended) {
  e.ids.push_back(id);
  e.offsets.push_back(offsets);
  e.type_ids.push_back(type_id);
  e.words.push_back(word);
  e.special_tokens_mask.push_back(special ? 1 : 0);
  e.attention_mask.push_back(attended ? 1 : 0);
}

void push_special(Encoding& e, TokenId id, const std::string& text, uint32_t type_id) {
  e.spelt.emplace_back(static_cast<uint32_t>(e.size()), text);
  push(e, id, {}, type_id, -1, true);
}

void append(Encoding& e, const Encoding& other) {
  const auto shift = static_cast<uint32_t>(e.size());
  e.ids.insert(e.ids.end(), other.ids.begin(), other.ids.end());
  e.offsets.insert(e.offsets.end(), other.offsets.begin(), other.offsets.end());
  e.type_ids.insert(e.type_ids.end(), other.type_ids.begin(), other.type_ids.end());
  e.words.insert(e.words.end(), other.words.begin(), other.words.end());
  e.special_tokens_mask.insert(e.special_tokens_mask.end(), other.special_tokens_mask.begin(), other.special_tokens_mask.end());
  e.attention_mask.insert(e.attention_mask.end(), other.attention_mask.begin(), other.attention_mask.end());
  for (const auto& [index, text] : other.spelt) e.spelt.emplace_back(index + shift, text);
}

void truncate(Encoding& first, Encoding* second, const Truncation& t) {
  const size_t total = first.size() + (second != nullptr ? second->size() : 0);
  if (total <= t.max_length) return;
  if (t.max_length == 0 || t.strategy == Truncation::Strategy::longest_first) {
    const auto [a, b] = second != nullptr && t.max_length > 0 ? longest_first(first.size(), second->size(), t.max_length)
                                                              : std::pair{t.max_length, size_t{0}};
    shorten(first, a, t.from_left);
    if (second != nullptr) shorten(*second, b, t.from_left);
    return;
  }
  Encoding* target = t.strategy == Truncation::Strategy::only_first ? &first : second;
  if (target == nullptr) throw Error(ErrorCode::usage, "the truncation strategy only_second needs a second text");
  const size_t excess = total - t.max_length;
  if (target->size() <= excess)
    throw Error(ErrorCode::usage, "the text that truncation may shorten is too short").hint("use the strategy longest_first");
  shorten(*target, target->size() - excess, t.from_left);
}

void pad(std::vector<Encoding>& all, const Padding& p) {
  size_t length = 0;
  for (const Encoding& e : all) length = std::max(length, e.size());
  if (p.length) length = *p.length;
  if (p.multiple_of > 0 && length % p.multiple_of > 0) length += p.multiple_of - length % p.multiple_of;
  for (Encoding& e : all) {
    if (e.size() >= length) continue;
    Encoding padding;
    for (size_t missing = length - e.size(); missing > 0; --missing) {
      padding.spelt.emplace_back(static_cast<uint32_t>(padding.size()), p.token);
      push(padding, p.id, {}, p.type_id, -1, true, false);
    }
    if (p.on_left) std::swap(e, padding);
    append(e, padding);
  }
}

}  // namespace pycandle::text
