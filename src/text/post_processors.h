// Post-processors add special tokens: "post_processor" of tokenizer.json.
#pragma once

#include <functional>
#include <memory>

#include "base/json.h"
#include "pycandle/tokenizer.h"

namespace pycandle::text {

class PostProcessor {
 public:
  virtual ~PostProcessor() = default;
  virtual size_t added(bool pair) const = 0;  // how many tokens it adds
  // One or two encodings become a list that is joined in its order. `text_of` spells a token.
  using Spelling = std::function<std::string(const Encoding&, size_t index)>;
  virtual std::vector<Encoding> process(std::vector<Encoding>, bool add_special_tokens, const Spelling& text_of) const = 0;
};

// Null for a JSON null. ErrorCode::gap names a type that is not known.
std::unique_ptr<PostProcessor> make_post_processor(const Json&);

}  // namespace pycandle::text
