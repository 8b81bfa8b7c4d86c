// Which tokens may come next, so that a text is one of a grammar.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "generate/grammar.h"
#include "pycandle/tokenizer.h"

namespace pycandle {

// The texts of a vocabulary's tokens as a tree of characters. A token that holds a part of a character, or no text, is not in it.
class TokenTexts {
 public:
  TokenTexts(const Tokenizer&, size_t vocabulary);

  struct Node {
    std::vector<std::pair<char32_t, uint32_t>> children;  // by character
    std::vector<TokenId> tokens;                          // that end here
  };
  const Node& node(uint32_t i) const { return nodes_[i]; }
  std::u32string text(TokenId) const;
  bool has_all_ascii() const;  // every character that can be typed is a token by itself

 private:
  std::vector<Node> nodes_;
  std::vector<std::u32string> texts_;
};

// A grammar over tokens. Used by one thread at a time.
class TokenGrammar {
 public:
  TokenGrammar(std::shared_ptr<const TokenTexts>, Reader);
  Reader& reader() { return reader_; }
  // Forbids (-inf) what no text goes on with, and what leaves too few tokens to end it: `left`, with the next one.
  void forbid(Reader::State, int64_t left, std::span<const TokenId> ends, std::span<float> scores);
  Reader::State after(Reader::State, TokenId);

 private:
  struct Way {
    TokenId token;
    Reader::State state;
  };
  const std::vector<Way>& ways(Reader::State);
  void collect(uint32_t node, Reader::State, std::vector<Way>&);

  std::shared_ptr<const TokenTexts> texts_;
  Reader reader_;
  std::map<Reader::State, std::vector<Way>> ways_;
  std::vector<bool> allowed_;
};

}  // namespace pycandle
