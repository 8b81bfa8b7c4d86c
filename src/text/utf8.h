// UTF-8 as bytes and as code points. Text inside the tokenizer is always valid: replace_invalid() stands at the door.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pycandle::text {

using CodePoint = uint32_t;

struct Decoded {
  CodePoint code = 0;
  uint32_t size = 1;  // bytes
};

inline bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// The code point at `p`, in valid text.
inline Decoded decode(const char* p) {
  const auto b = [p](int i) { return static_cast<CodePoint>(static_cast<unsigned char>(p[i])); };
  if (b(0) < 0x80) return {b(0), 1};
  if (b(0) < 0xE0) return {(b(0) & 0x1F) << 6 | (b(1) & 0x3F), 2};
  if (b(0) < 0xF0) return {(b(0) & 0x0F) << 12 | (b(1) & 0x3F) << 6 | (b(2) & 0x3F), 3};
  return {(b(0) & 0x07) << 18 | (b(1) & 0x3F) << 12 | (b(2) & 0x3F) << 6 | (b(3) & 0x3F), 4};
}

// The code point that ends before byte `end`, which is not 0, in valid text.
inline Decoded decode_before(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && is_continuation(text[begin])) --begin;
  return decode(text.data() + begin);
}

void append(std::string& out, CodePoint c);
size_t count_characters(std::string_view valid);
bool is_ascii(std::string_view);

// The bytes of the valid sequence at the start, or 0 and in `bad` the length of the longest prefix that could begin one
// (at least 1): what Python's errors="replace" turns into one U+FFFD.
size_t valid_sequence(std::string_view bytes, size_t& bad);
bool is_valid(std::string_view bytes);
// As Python's bytes.decode("utf-8", errors="replace").
std::string replace_invalid(std::string_view bytes);
// How many bytes at the end are the beginning of a character whose rest has not come yet.
size_t incomplete_tail(std::string_view bytes);

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

}  // namespace pycandle::text
