// A tokenizer as tables that are read as they are: a bundle carries it beside tokenizer.json, and opens it in milliseconds.
//
//   "PCTOKEN1" | settings (JSON: tokenizer.json without vocabulary and merges) | vocabulary | scores | merges
//
// Lists are a count of 64 bits and their elements. The bytes come from outside: every index in them is checked.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"

namespace pycandle::text {

class TableWriter {
 public:
  template <class T> void list(std::span<const T> elements) {
    static_assert(std::is_trivially_copyable_v<T>);
    const uint64_t count = elements.size();
    bytes_.append(reinterpret_cast<const char*>(&count), sizeof count);
    bytes_.append(reinterpret_cast<const char*>(elements.data()), elements.size_bytes());
  }
  void text(std::string_view text) { list(std::span(text.data(), text.size())); }
  void number(uint64_t n) { bytes_.append(reinterpret_cast<const char*>(&n), sizeof n); }
  std::string taken() && { return std::move(bytes_); }

 private:
  std::string bytes_;
};

class TableReader {
 public:
  explicit TableReader(std::string_view bytes) : bytes_(bytes) {}
  template <class T> std::vector<T> list() {
    const std::string_view raw = block(sizeof(T));
    std::vector<T> elements(raw.size() / sizeof(T));
    if (!raw.empty()) std::memcpy(elements.data(), raw.data(), raw.size());
    return elements;
  }
  std::string_view text() { return block(1); }
  uint64_t number() {
    uint64_t n = 0;
    check(bytes_.size() - at_ >= sizeof n, "it is truncated");
    std::memcpy(&n, bytes_.data() + at_, sizeof n);
    at_ += sizeof n;
    return n;
  }
  bool at_end() const { return at_ == bytes_.size(); }
  static void check(bool holds, const char* what) {
    if (!holds)
      throw Error(ErrorCode::bad_input, std::string("the compiled tokenizer is damaged: ") + what)
          .hint("make it again from tokenizer.json: pycandle bundle");
  }

 private:
  std::string_view block(size_t element) {
    const uint64_t count = number();
    check(count <= (bytes_.size() - at_) / element, "it is truncated");
    const std::string_view raw = bytes_.substr(at_, count * element);
    at_ += raw.size();
    return raw;
  }
  std::string_view bytes_;
  size_t at_ = 0;
};

}  // namespace pycandle::text
