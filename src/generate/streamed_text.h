// Tokens to text that is given piece by piece: no character is split, and no part of a stop text is given.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pycandle/tokenizer.h"

namespace pycandle {

class StreamedText {
 public:
  // Without a tokenizer there is no text.
  StreamedText(const Tokenizer* tokenizer, const std::vector<std::string>& stop);
  std::string add(TokenId);  // what can be given now
  std::string finish();      // what was held back
  bool is_stopped() const { return stopped_; }  // a stop text has come: nothing follows

 private:
  std::string released(bool all);
  std::optional<TokenStream> stream_;
  const std::vector<std::string>* stop_;
  std::string held_;  // complete characters that may begin a stop text
  bool stopped_ = false;
};

}  // namespace pycandle
