#include "text/encodings.h"

#include <algorithm>
#include <tuple>

#include "base/error.h"

namespace pycandle::text {
namespace {

template <typename T> std::vector<T> range(const std::vector<T>& list, size_t begin, size_t end) {
  return {list.begin() + static_cast<ptrdiff_t>(begin), list.begin() + static_cast<ptrdiff_t>(end)};
}

Encoding slice(const Encoding& e, size_t begin, size_t end) {
  Encoding part;
  part.ids = range(e.ids, begin, end);
  part.offsets = range(e.offsets, begin, end);
  part.type_ids = range(e.type_ids, begin, end);
  part.words = range(e.words, begin, end);
  part.special_tokens_mask = range(e.special_tokens_mask, begin, end);
  part.attention_mask = range(e.attention_mask, begin, end);
  for (const auto& [index, text] : e.spelt) {
    if (index >= begin && index < end) part.spelt.emplace_back(index - static_cast<uint32_t>(begin), text);
  }
  return part;
}

constexpr size_t kMostOverflowing = size_t{1} << 24;  // tokens: a file must not ask for more memory than its text needs

// Parts of `length` tokens, each of which begins `stride` tokens before the last one ends.
std::vector<Encoding> parts_of(Encoding&& e, size_t length, const Truncation& t) {
  std::vector<Encoding> parts;
  if (length >= e.size()) {
    parts.push_back(std::move(e));
    return parts;
  }
  if (length == 0) {
    parts.emplace_back();
    parts.push_back(std::move(e));
    return parts;
  }
  if (t.stride >= length)
    throw Error(ErrorCode::usage, "the stride of a truncation must be smaller than what it leaves")
        .expected("less than " + std::to_string(length))
        .found(std::to_string(t.stride));
  const size_t step = length - t.stride;
  if (e.size() / step > kMostOverflowing / length)
    throw Error(ErrorCode::usage, "the stride of a truncation makes too many parts of this text")
        .expected("a stride that is farther from " + std::to_string(length))
        .found(std::to_string(t.stride));
  for (size_t done = 0;; done += step) {
    const size_t begin = t.from_left ? e.size() - std::min(e.size(), done + length) : done;
    const size_t end = t.from_left ? e.size() - done : std::min(e.size(), done + length);
    parts.push_back(slice(e, begin, end));
    if (done + length >= e.size()) return parts;
  }
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

TextParts truncate(std::vector<Encoding> texts, const Truncation& t) {
  std::vector<size_t> lengths;
  size_t total = 0;
  for (const Encoding& e : texts) total += lengths.emplace_back(e.size());
  if (total > t.max_length) {
    if (t.max_length == 0 || t.strategy == Truncation::Strategy::longest_first) {
      if (texts.size() == 2 && t.max_length > 0)
        std::tie(lengths[0], lengths[1]) = longest_first(lengths[0], lengths[1], t.max_length);
      else
        lengths = {t.max_length, 0};
    } else {
      const size_t target = t.strategy == Truncation::Strategy::only_first ? 0 : 1, excess = total - t.max_length;
      if (target >= texts.size()) throw Error(ErrorCode::usage, "the truncation strategy only_second needs a second text");
      if (lengths[target] <= excess)
        throw Error(ErrorCode::usage, "the text that truncation may shorten is too short").hint("use the strategy longest_first");
      lengths[target] -= excess;
    }
  }
  TextParts parts;
  for (size_t i = 0; i < texts.size(); ++i) parts.push_back(parts_of(std::move(texts[i]), lengths[i], t));
  return parts;
}

void pad(std::vector<Encoding>& all, const Padding& p) {
  size_t length = 0;
  for (const Encoding& e : all) length = std::max(length, e.size());
  if (p.length) length = *p.length;
  if (p.multiple_of > 0 && length % p.multiple_of > 0) length += p.multiple_of - length % p.multiple_of;
  for (Encoding& e : all) {
    Padding same = p;
    same.length = length;
    if (!e.overflowing.empty()) pad(e.overflowing, same);
    if (e.size() >= length) continue;
    std::vector<Encoding> overflowing = std::move(e.overflowing);
    Encoding padding;
    for (size_t missing = length - e.size(); missing > 0; --missing) {
      padding.spelt.emplace_back(static_cast<uint32_t>(padding.size()), p.token);
      push(padding, p.id, {}, p.type_id, -1, true, false);
    }
    if (p.on_left) std::swap(e, padding);
    append(e, padding);
    e.overflowing = std::move(overflowing);
  }
}

}  // namespace pycandle::text
