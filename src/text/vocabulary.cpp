#include "text/vocabulary.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace pycandle::text {
namespace {

// An id indexes a table, so a file may not name one far beyond its tokens.
constexpr TokenId kIdLimit = 1U << 26;

}  // namespace

void Vocabulary::reserve(size_t tokens, size_t bytes) {
  block_.reserve(bytes);
  entries_.reserve(tokens);
  by_id_.reserve(tokens);
  slots_.assign(std::bit_ceil(std::max<size_t>(16, tokens * 2)), 0);
  for (size_t i = 0; i < entries_.size(); ++i) slots_[slot_of(text_of(entries_[i]))] = static_cast<uint32_t>(i + 1);
}

size_t Vocabulary::slot_of(std::string_view token) const {
  const size_t mask = slots_.size() - 1;
  size_t slot = hash_bytes(token.data(), token.size()) & mask;
  while (slots_[slot] != 0 && text_of(entries_[slots_[slot] - 1]) != token) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() { reserve(std::max<size_t>(64, entries_.size() * 2), block_.size() * 2); }

void Vocabulary::add(std::string_view token, TokenId id) {
  if (id >= kIdLimit) throw Error(ErrorCode::bad_input, "a token's id is too large").found(std::to_string(id));
  if (entries_.size() * 2 >= slots_.size()) grow();
  const size_t slot = slot_of(token);
  uint32_t index = slots_[slot];
  if (index == 0) {
    if (block_.size() + token.size() > UINT32_MAX) throw Error(ErrorCode::bad_input, "the vocabulary is larger than 4 GB");
    entries_.push_back({static_cast<uint32_t>(block_.size()), static_cast<uint32_t>(token.size()), id});
    block_ += token;
    index = slots_[slot] = static_cast<uint32_t>(entries_.size());
    ++count_;
    longest_ = std::max(longest_, token.size());
  } else {
    entries_[index - 1].id = id;
  }
  if (by_id_.size() <= id) by_id_.resize(size_t{id} + 1, 0);
  by_id_[id] = index;
}

TokenId Vocabulary::find(std::string_view token) const {
  if (slots_.empty() || token.size() > longest_) return kNoToken;
  const uint32_t index = slots_[slot_of(token)];
  return index == 0 ? kNoToken : entries_[index - 1].id;
}

std::optional<std::string_view> Vocabulary::text(TokenId id) const {
  if (id >= by_id_.size() || by_id_[id] == 0) return std::nullopt;
  return text_of(entries_[by_id_[id] - 1]);
}

void Vocabulary::write(TableWriter& out) const {
  out.text(block_);
  out.list(std::span<const Entry>(entries_));
  out.list(std::span<const uint32_t>(slots_));
  out.list(std::span<const uint32_t>(by_id_));
}

Vocabulary Vocabulary::read(TableReader& in) {
  Vocabulary v;
  v.block_ = in.text();
  v.entries_ = in.list<Entry>();
  v.slots_ = in.list<uint32_t>();
  v.by_id_ = in.list<uint32_t>();
  v.count_ = v.entries_.size();
  const auto check = TableReader::check;
  check(v.slots_.empty() ? v.entries_.empty() : std::has_single_bit(v.slots_.size()) && v.entries_.size() < v.slots_.size(),
        "its vocabulary has no room");
  check(v.by_id_.size() <= kIdLimit, "an id is too large");
  for (const Entry& e : v.entries_) {
    check(e.offset <= v.block_.size() && e.size <= v.block_.size() - e.offset, "a token lies outside its text");
    check(e.id < v.by_id_.size(), "an id is too large");
    v.longest_ = std::max<size_t>(v.longest_, e.size);
  }
  size_t used = 0;
  for (const uint32_t index : v.slots_) {
    check(index <= v.entries_.size(), "an index is too large");
    used += index != 0;
  }
  check(used == v.entries_.size(), "a token is not found by its text");  // and a search ends at a slot that is free
  for (const uint32_t index : v.by_id_) check(index <= v.entries_.size(), "an index is too large");
  return v;
}

bool Vocabulary::is(TokenId id, std::string_view left, std::string_view right) const {
  const auto found = text(id);
  return found && found->size() == left.size() + right.size() && found->starts_with(left) && found->ends_with(right);
}

}  // namespace pycandle::text
