#include "text/added_tokens.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "text/settings.h"
#include "text/unicode.h"

namespace pycandle::text {

AddedTokens::AddedTokens(const Json& json, const Model& model, const Normalizer* normalizer) {
  if (json.is_null()) return;
  if (!json.is_array()) throw Error(ErrorCode::bad_input, "the tokenizer's added_tokens are not a list");
  auto next = static_cast<TokenId>(model.vocabulary().size());
  for (const Json& each : json) {
    const Settings s(each, "added_tokens");
    AddedToken token{s.text("content"),       s.flag("single_word", false), s.flag("lstrip", false),
                     s.flag("rstrip", false), s.flag("normalized", true),   s.flag("special", false)};
    if (token.content.empty()) continue;
    TokenId id = find(token.content);
    if (id == kNoToken) id = model.vocabulary().find(token.content);
    if (id == kNoToken) id = next++;
    if (token.normalized && normalizer != nullptr) {
      AlignedText text(token.content);
      normalizer->normalize(text);
      if (text.text() != token.content) normalised_[id] = text.text();
    }
    if (token.special) special_.insert(token.content);
    ids_[token.content] = id;
    tokens_[id] = std::move(token);
  }
  for (const auto& [id, token] : tokens_) {
    const auto other = normalised_.find(id);
    const bool changed = token.normalized && other != normalised_.end();
    (token.normalized ? after_ : before_).add(changed ? other->second : token.content, id);
  }
  before_.sort();
  after_.sort();
}

void AddedTokens::Needles::add(const std::string& text, TokenId id) {
  if (text.empty()) return;
  empty = false;
  by_first_byte[static_cast<unsigned char>(text[0])].emplace_back(text, id);
}

void AddedTokens::Needles::sort() {
  for (auto& list : by_first_byte)
    std::stable_sort(list.begin(), list.end(), [](const auto& a, const auto& b) { return a.first.size() > b.first.size(); });
}

TokenId AddedTokens::find(std::string_view content) const {
  const auto it = ids_.find(content);
  return it == ids_.end() ? kNoToken : it->second;
}

const std::string* AddedTokens::text(TokenId id) const {
  const auto it = tokens_.find(id);
  if (it == tokens_.end()) return nullptr;
  const auto other = normalised_.find(id);
  return other == normalised_.end() ? &it->second.content : &other->second;
}

size_t AddedTokens::beyond(const Vocabulary& vocabulary) const {
  return static_cast<size_t>(
      std::count_if(ids_.begin(), ids_.end(), [&](const auto& each) { return vocabulary.find(each.first) == kNoToken; }));
}

// Everything in order: tokens, and what lies between them.
void AddedTokens::find_all(std::string_view text, const Needles& needles, std::vector<Found>& out) const {
  size_t done = 0;
  for (size_t at = 0; !needles.empty && at < text.size();) {
    const auto& candidates = needles.by_first_byte[static_cast<unsigned char>(text[at])];
    const auto hit = std::find_if(candidates.begin(), candidates.end(),
                                  [&](const auto& c) { return text.substr(at).starts_with(c.first); });
    if (hit == candidates.end()) {
      ++at;
      continue;
    }
    size_t begin = at, end = at + hit->first.size();
    at = end;
    const AddedToken& token = tokens_.at(hit->second);
    if (token.single_word) {
      const bool word_before = begin > 0 && is_word_character(decode_before(text, begin).code);
      const bool word_after = end < text.size() && is_word_character(decode(text.data() + end).code);
      if (word_before || word_after) continue;
    }
    if (token.lstrip) {
      while (begin > done && is_whitespace(decode_before(text, begin).code)) begin -= decode_before(text, begin).size;
    }
    if (token.rstrip) {
      while (end < text.size() && is_whitespace(decode(text.data() + end).code)) end += decode(text.data() + end).size;
    }
    if (done < begin) out.push_back({static_cast<uint32_t>(done), static_cast<uint32_t>(begin), kNoToken});
    out.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end), hit->second});
    done = end;
  }
  if (done < text.size()) out.push_back({static_cast<uint32_t>(done), static_cast<uint32_t>(text.size()), kNoToken});
}

Pieces AddedTokens::extract(std::string text, const Normalizer* normalizer) const {
  Pieces pieces;
  std::vector<Found> sections, parts;
  find_all(text, before_, sections);
  const bool unchanged = normalizer == nullptr && after_.empty;
  if (unchanged) {
    for (const Found& f : sections) pieces.list.push_back({f.begin, f.end, f.begin, f.id});
    pieces.text = AlignedText(std::move(text));
    return pieces;
  }
  for (const Found& section : sections) {
    AlignedText part(text.substr(section.begin, section.end - section.begin), section.begin);
    parts.clear();
    if (section.id != kNoToken) {
      parts.push_back({0, section.end - section.begin, section.id});
    } else {
      if (normalizer != nullptr) normalizer->normalize(part);
      find_all(part.text(), after_, parts);
    }
    for (const Found& f : parts) {
      const auto begin = static_cast<uint32_t>(pieces.text.text().size());
      pieces.list.push_back({begin, begin + f.end - f.begin, part.span(f.begin, f.end).begin, f.id});
      if (sections.size() == 1 && parts.size() == 1) {
        pieces.text = std::move(part);
        break;
      }
      pieces.text.append(part, f.begin, f.end);
    }
  }
  return pieces;
}

}  // namespace pycandle::text
