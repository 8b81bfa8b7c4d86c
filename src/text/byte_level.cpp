#include "text/byte_level.h"

namespace pycandle::text {
namespace {

bool is_printable(int b) { return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE; }

struct Alphabet {
  std::array<CodePoint, 256> character{};
  std::array<std::string, 256> text;
  std::array<int16_t, 0x144> byte{};

  Alphabet() {
    byte.fill(-1);
    CodePoint next = 0x100;
    for (int b = 0; b < 256; ++b) {
      const auto i = static_cast<size_t>(b);
      character[i] = is_printable(b) ? static_cast<CodePoint>(b) : next++;
      append(text[i], character[i]);
      byte[character[i]] = static_cast<int16_t>(b);
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet made;
  return made;
}

}  // namespace

const std::array<std::string, 256>& byte_characters() { return alphabet().text; }
CodePoint byte_character(unsigned char b) { return alphabet().character[b]; }
int byte_of(CodePoint c) { return c < alphabet().byte.size() ? alphabet().byte[c] : -1; }

bool to_bytes(std::string_view token, std::string& out) {
  for (size_t i = 0; i < token.size();) {
    const Decoded c = decode(token.data() + i);
    const int byte = byte_of(c.code);
    if (byte < 0) return false;
    out += static_cast<char>(byte);
    i += c.size;
  }
  return true;
}

std::string to_characters(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) out += byte_characters()[static_cast<unsigned char>(c)];
  return out;
}

}  // namespace pycandle::text
