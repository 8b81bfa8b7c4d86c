// Tokens that are found in the text as a whole, before normalising (special tokens, mostly) or after it.
#pragma once

#include <map>
#include <set>

#include "text/model.h"
#include "text/normalizers.h"
#include "text/pre_tokenizers.h"

namespace pycandle::text {

struct AddedToken {
  std::string content;
  bool single_word = false, lstrip = false, rstrip = false, normalized = true, special = false;
};

class AddedTokens {
 public:
  // Ids are the model's, or follow its vocabulary. `json` is "added_tokens" of the file.
  AddedTokens(const Json& json, const Model&, const Normalizer*);

  // The valid text, cut at added tokens and normalised.
  Pieces extract(std::string text, const Normalizer*) const;

  TokenId find(std::string_view content) const;     // kNoToken when it is not one
  const std::string* text(TokenId) const;           // null when it is not one
  bool is_special(std::string_view content) const { return special_.contains(content); }
  size_t beyond(const Vocabulary&) const;           // how many are not in the vocabulary

 private:
  struct Found {
    uint32_t begin = 0, end = 0;
    TokenId id = kNoToken;
  };
  // The texts to look for, by their first byte, longest first.
  struct Needles {
    std::vector<std::pair<std::string, TokenId>> by_first_byte[256];
    bool empty = true;
    void add(const std::string& text, TokenId);
    void sort();
  };
  void find_all(std::string_view text, const Needles&, std::vector<Found>&) const;

  std::map<TokenId, AddedToken> tokens_;
  std::map<std::string, TokenId, std::less<>> ids_;
  std::map<TokenId, std::string> normalised_;  // where it differs from the content
  std::set<std::string, std::less<>> special_;
  Needles before_, after_;  // normalising
};

}  // namespace pycandle::text
