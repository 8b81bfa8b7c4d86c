// SentencePiece's precompiled table: four bytes with the length of a double array trie, the trie, and the replacements, each
// ended by a NUL. A character, or a short cluster of characters, is replaced by what its shortest prefix in the trie names.
#include <cstring>

#include "base/error.h"
#include "text/normalizers.h"
#include "text/unicode.h"

namespace pycandle::text {
namespace {

Error broken() { return Error(ErrorCode::bad_input, "the tokenizer's precompiled_charsmap cannot be read"); }

std::string from_base64(const std::string& text) {
  static constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  uint32_t bits = 0;
  int held = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) throw broken();
    bits = bits << 6 | static_cast<uint32_t>(digit);
    held += 6;
    if (held >= 8) out += static_cast<char>(bits >> (held -= 8) & 0xFF);
  }
  return out;
}

class Precompiled : public Normalizer {
 public:
  explicit Precompiled(const std::string& base64) {
    const std::string bytes = from_base64(base64);
    uint32_t trie_bytes = 0;
    if (bytes.size() < 4) throw broken();
    std::memcpy(&trie_bytes, bytes.data(), 4);
    if (trie_bytes > bytes.size() - 4 || trie_bytes % 4 != 0 || trie_bytes == 0) throw broken();
    trie_.resize(trie_bytes / 4);
    std::memcpy(trie_.data(), bytes.data() + 4, trie_bytes);
    replacements_ = bytes.substr(4 + trie_bytes) + '\0';
    if (!is_valid(replacements_)) throw broken();
  }

  void normalize(AlignedText& text) const override {
    const std::string& old = text.text();
    std::vector<Edit> edits;
    edits.reserve(old.size());
    bool changed = false;
    for (size_t at = 0; at < old.size();) {
      const size_t end = grapheme_end(old, at);
      const std::string_view cluster(old.data() + at, end - at);
      std::string_view by;
      if (cluster.size() < 6 && find(cluster, by)) {
        changed = true;
        replace(cluster, by, edits);
      } else {
        for (size_t i = at; i < end;) {
          const Decoded c = decode(old.data() + i);
          const std::string_view character(old.data() + i, c.size);
          if (find(character, by)) {
            changed = true;
            replace(character, by, edits);
          } else {
            edits.push_back({c.code, 0});
          }
          i += c.size;
        }
      }
      at = end;
    }
    if (changed) text.transform(edits);
  }

 private:
  bool find(std::string_view key, std::string_view& by) const {
    size_t node = offset(trie_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) return false;
      node ^= byte;
      if (node >= trie_.size()) return false;
      const uint32_t unit = trie_[node];
      if ((unit & (1U << 31 | 0xFF)) != byte) return false;
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= trie_.size()) return false;
      const size_t value = trie_[node] & ((1U << 31) - 1);
      if (value >= replacements_.size()) return false;
      by = replacements_.data() + value;
      return is_valid(by);
    }
    return false;
  }
  static size_t offset(uint32_t unit) { return size_t{unit >> 10} << ((unit & 1U << 9) >> 6); }

  // New characters replace old ones one by one; what is left over was inserted or removed.
  static void replace(std::string_view old, std::string_view by, std::vector<Edit>& edits) {
    const size_t old_count = count_characters(old), new_count = count_characters(by);
    size_t index = 0;
    for (size_t i = 0; i < by.size(); ++index) {
      const Decoded c = decode(by.data() + i);
      edits.push_back({c.code, index < old_count ? 0 : 1});
      i += c.size;
    }
    if (new_count < old_count && !edits.empty()) edits.back().change -= static_cast<int>(old_count - new_count);
  }

  std::vector<uint32_t> trie_;
  std::string replacements_;
};

}  // namespace

std::unique_ptr<Normalizer> make_precompiled(const std::string& base64) { return std::make_unique<Precompiled>(base64); }

}  // namespace pycandle::text
