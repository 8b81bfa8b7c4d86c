// Cutting pieces at delimiters, with the five answers to where a delimiter goes.
#pragma once

#include <functional>

#include "text/pre_tokenizers.h"

namespace pycandle::text {

// For "the-final" and '-':  removed the|final  isolated the|-|final  merged_with_previous the-|final
// merged_with_next the|-final  contiguous as isolated, but delimiters side by side stay together
enum class Delimiter { removed, isolated, merged_with_previous, merged_with_next, contiguous };
Delimiter delimiter_from(const std::string& name);  // "MergedWithNext"; bad_input otherwise

// Adds the matches within a text, in order.
using Finder = std::function<void(std::string_view, std::vector<Span>&)>;
// `invert`: what is found is kept, what lies between is the delimiter.
void split(Pieces&, const Finder&, Delimiter, bool invert = false);
void split_at(Pieces&, const std::function<bool(CodePoint)>& is_delimiter, Delimiter);

}  // namespace pycandle::text
