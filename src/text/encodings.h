// What happens to encodings after the model: joining, cutting, padding.
#pragma once

#include "pycandle/tokenizer.h"

namespace pycandle::text {

void push(Encoding&, TokenId, TokenOffsets, uint32_t type_id, int32_t word, bool special, bool attended = true);
// A token that a post-processor adds.
void push_special(Encoding&, TokenId, const std::string& text, uint32_t type_id);
void append(Encoding&, const Encoding& other);
// The parts of each text (one or two): first the one that is kept, then what is cut off. ErrorCode::usage when the strategy
// cannot make them short enough.
using TextParts = std::vector<std::vector<Encoding>>;
TextParts truncate(std::vector<Encoding> texts, const Truncation&);
void pad(std::vector<Encoding>&, const Padding&);

}  // namespace pycandle::text
