#include "generate/constraint.h"

#include <algorithm>
#include <limits>

#include "base/error.h"

namespace pycandle {
namespace {

constexpr size_t kKeptStates = 64;

// The characters of a text that is valid UTF-8.
std::u32string characters(const std::string& text) {
  std::u32string out;
  for (size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const size_t size = byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
    char32_t c = size == 1 ? byte : byte & (0xFFU >> (size + 1));
    for (size_t k = 1; k < size && i + k < text.size(); ++k) c = c << 6U | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    out.push_back(c);
    i += size;
  }
  return out;
}

constexpr char32_t kReplacement = 0xFFFD;

}  // namespace

TokenTexts::TokenTexts(const Tokenizer& tokenizer, size_t vocabulary) : nodes_(1), texts_(vocabulary) {
  // A token's text is what it adds behind another one: at the beginning decoders may take a space away.
  const std::vector<TokenId> before = tokenizer.encode("a", false).ids;
  const std::u32string alone = characters(tokenizer.decode(before));
  std::unordered_map<uint64_t, uint32_t> children;  // by node and character
  const auto known = static_cast<TokenId>(std::min(vocabulary, tokenizer.vocabulary_size()));
  for (TokenId token = 0; token < known; ++token) {
    std::vector<TokenId> both = before;
    both.push_back(token);
    const std::u32string all = characters(tokenizer.decode(both));
    if (all.size() <= alone.size() || all.compare(0, alone.size(), alone) != 0 || all.find(kReplacement) != std::u32string::npos)
      continue;
    texts_[token] = all.substr(alone.size());
    uint32_t at = 0;
    for (const char32_t c : texts_[token]) {
      const auto [child, is_new] = children.emplace(uint64_t{at} << 32U | c, static_cast<uint32_t>(nodes_.size()));
      if (is_new) {
        nodes_[at].children.emplace_back(c, child->second);
        nodes_.emplace_back();
      }
      at = child->second;
    }
    nodes_[at].tokens.push_back(token);
  }
}

std::u32string TokenTexts::text(TokenId token) const { return token < texts_.size() ? texts_[token] : std::u32string(); }

bool TokenTexts::has_all_ascii() const {
  size_t found = 0;
  for (const auto& [character, child] : nodes_[0].children)
    found += character >= 0x20 && character < 0x7F && !nodes_[child].tokens.empty() ? 1 : 0;
  return found == 0x7F - 0x20;
}

TokenGrammar::TokenGrammar(std::shared_ptr<const TokenTexts> texts, Reader reader)
    : texts_(std::move(texts)), reader_(std::move(reader)) {
  if (!texts_->has_all_ascii())
    throw Error(ErrorCode::gap, "the tokenizer cannot write every text").expected("a token for each character of ASCII");
}

void TokenGrammar::forbid(Reader::State state, int64_t left, std::span<const TokenId> ends, std::span<float> scores) {
  allowed_.assign(scores.size(), false);
  for (const Way& way : ways(state)) allowed_[way.token] = reader_.shortest_end(way.state) < left;
  for (const TokenId end : ends) {
    if (end < scores.size()) allowed_[end] = reader_.may_end(state);
  }
  for (size_t i = 0; i < scores.size(); ++i) {
    if (!allowed_[i]) scores[i] = -std::numeric_limits<float>::infinity();
  }
}

Reader::State TokenGrammar::after(Reader::State state, TokenId token) {
  for (const char32_t c : texts_->text(token)) {
    const auto next = reader_.next(state, c);
    if (!next) throw Error(ErrorCode::internal, "a token was chosen that the grammar forbids");
    state = *next;
  }
  return state;
}

const std::vector<TokenGrammar::Way>& TokenGrammar::ways(Reader::State state) {
  if (ways_.size() > kKeptStates) ways_.clear();
  const auto [found, is_new] = ways_.try_emplace(state);
  if (is_new) collect(0, state, found->second);
  return found->second;
}

void TokenGrammar::collect(uint32_t node, Reader::State state, std::vector<Way>& into) {
  for (const TokenId token : texts_->node(node).tokens) into.push_back({token, state});
  for (const auto& [character, child] : texts_->node(node).children) {
    if (const auto next = reader_.next(state, character)) collect(child, *next, into);
  }
}

}  // namespace pycandle
