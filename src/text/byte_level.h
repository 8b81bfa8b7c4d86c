// The alphabet of byte-level tokenizers: a printable character for each byte.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "text/utf8.h"

namespace pycandle::text {

// Printable ASCII and Latin-1 stand for themselves, the other bytes for U+0100 and on.
const std::array<std::string, 256>& byte_characters();
CodePoint byte_character(unsigned char);
// The byte of a character, or -1.
int byte_of(CodePoint);
// "Ġthe" → " the"; false when a character is not of the alphabet.
bool to_bytes(std::string_view token, std::string& out);
std::string to_characters(std::string_view bytes);

}  // namespace pycandle::text
