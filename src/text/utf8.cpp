#include "text/utf8.h"

#include <cstring>

namespace pycandle::text {

void append(std::string& out, CodePoint c) {
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

size_t count_characters(std::string_view valid) {
  size_t count = 0;
  for (const char c : valid) count += is_continuation(c) ? 0 : 1;
  return count;
}

bool is_ascii(std::string_view text) {
  const char* p = text.data();
  size_t left = text.size();
  for (; left >= 8; p += 8, left -= 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    if ((word & 0x8080808080808080ULL) != 0) return false;
  }
  for (; left > 0; ++p, --left) {
    if ((static_cast<unsigned char>(*p) & 0x80) != 0) return false;
  }
  return true;
}

size_t valid_sequence(std::string_view bytes, size_t& bad) {
  const auto at = [bytes](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  bad = 1;
  const unsigned lead = at(0);
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t size = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  // The second byte is what keeps out overlong forms, surrogates and what is beyond U+10FFFF.
  unsigned low = 0x80, high = 0xBF;
  if (lead == 0xE0) low = 0xA0;
  if (lead == 0xED) high = 0x9F;
  if (lead == 0xF0) low = 0x90;
  if (lead == 0xF4) high = 0x8F;
  for (size_t i = 1; i < size; ++i) {
    if (i >= bytes.size() || at(i) < low || at(i) > high) return 0;
    low = 0x80;
    high = 0xBF;
    bad = i + 1;
  }
  return size;
}

bool is_valid(std::string_view bytes) {
  size_t bad = 0;
  while (!bytes.empty()) {
    const size_t size = valid_sequence(bytes, bad);
    if (size == 0) return false;
    bytes.remove_prefix(size);
  }
  return true;
}

std::string replace_invalid(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  size_t bad = 0;
  while (!bytes.empty()) {
    const size_t size = valid_sequence(bytes, bad);
    out += size > 0 ? bytes.substr(0, size) : kReplacement;
    bytes.remove_prefix(size > 0 ? size : bad);
  }
  return out;
}

size_t incomplete_tail(std::string_view bytes) {
  for (size_t back = 1; back <= 3 && back <= bytes.size(); ++back) {
    const std::string_view tail = bytes.substr(bytes.size() - back);
    if (is_continuation(tail[0])) continue;
    size_t bad = 0;
    return valid_sequence(tail, bad) == 0 && bad == back && static_cast<unsigned char>(tail[0]) >= 0xC2 &&
                   static_cast<unsigned char>(tail[0]) <= 0xF4
               ? back
               : 0;
  }
  return 0;
}

}  // namespace pycandle::text
