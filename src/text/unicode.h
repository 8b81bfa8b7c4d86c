// What the tokenizer asks of Unicode: classes of characters, lower case, and the normalisation forms with their edits.
#pragma once

#include <vector>

#include "text/aligned_text.h"

namespace pycandle::text {

bool is_whitespace(CodePoint);       // the property White_Space
bool is_numeric(CodePoint);          // Nd, Nl, No
bool is_punctuation(CodePoint);      // ASCII punctuation, and P*
bool is_mark(CodePoint);             // Mn, Mc, Me
bool is_nonspacing_mark(CodePoint);  // Mn
bool is_other(CodePoint);            // Cc, Cf, Co: control, format and private use
CodePoint lower(CodePoint);          // simple mapping; U+0130 is the one character with a longer one

CodePoint upper(CodePoint);          // simple mapping

enum class Form { nfc, nfd, nfkc, nfkd };
void normalise(AlignedText&, Form);
void lowercase(AlignedText&);

// The next boundary between extended grapheme clusters after byte `begin`.
size_t grapheme_end(std::string_view valid, size_t begin);

}  // namespace pycandle::text
