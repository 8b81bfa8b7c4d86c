#include "base/png.h"

#include <algorithm>
#include <array>

namespace pycandle {
namespace {

std::string big_endian(uint32_t v) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(v >> shift & 0xff);
  return bytes;
}

uint32_t crc32(std::string_view bytes) {
  static const std::array<uint32_t, 256> kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t n = 0; n < table.size(); ++n) {
      uint32_t c = n;
      for (int bit = 0; bit < 8; ++bit) c = (c & 1) != 0 ? 0xedb88320U ^ (c >> 1) : c >> 1;
      table[n] = c;
    }
    return table;
  }();
  uint32_t crc = 0xffffffffU;
  for (const char byte : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

uint32_t adler32(std::string_view bytes) {
  uint32_t a = 1, b = 0;
  for (const char byte : bytes) {
    a = (a + static_cast<unsigned char>(byte)) % 65521;
    b = (b + a) % 65521;
  }
  return b << 16 | a;
}

std::string chunk(std::string_view type, std::string_view data) {
  const std::string body = std::string(type).append(data);
  return big_endian(static_cast<uint32_t>(data.size())) + body + big_endian(crc32(body));
}

// zlib's form with stored blocks only.
std::string stored(std::string_view bytes) {
  constexpr size_t kBlock = 65535;
  std::string out = "\x78\x01";
  for (size_t at = 0; at == 0 || at < bytes.size(); at += kBlock) {
    const std::string_view block = bytes.substr(at, kBlock);
    const auto size = static_cast<uint16_t>(block.size());
    const auto inverse = static_cast<uint16_t>(~size);
    out += static_cast<char>(at + kBlock >= bytes.size());  // the last one?
    for (const uint16_t v : {size, inverse}) out.append({static_cast<char>(v & 0xff), static_cast<char>(v >> 8)});
    out += block;
  }
  return out + big_endian(adler32(bytes));
}

}  // namespace

std::string png_of(std::string_view rgb, uint32_t width, uint32_t height) {
  std::string rows;
  for (uint32_t y = 0; y < height; ++y) rows.append(1, '\0').append(rgb.substr(size_t{3} * width * y, size_t{3} * width));
  const std::string kind("\x08\x02\0\0\0", 5);  // 8 bits, RGB
  return std::string("\x89PNG\r\n\x1a\n", 8) + chunk("IHDR", big_endian(width) + big_endian(height) + kind) +
         chunk("IDAT", stored(rows)) + chunk("IEND", "");
}

}  // namespace pycandle
