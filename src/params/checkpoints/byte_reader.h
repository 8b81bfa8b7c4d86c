// The bytes of a file in order; what is not there is one clear error.
#pragma once

#include <fmt/format.h>

#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "base/error.h"

namespace pycandle {

using Bytes = std::span<const std::byte>;

inline std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
// A text from a file as part of a message: not too long, printable.
std::string shown_text(std::string_view);

class ByteReader {
 public:
  ByteReader(Bytes bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  size_t at() const { return at_; }
  size_t left() const { return bytes_.size() - at_; }
  bool at_end() const { return left() == 0; }
  void skip_to(size_t at, const char* what) {
    if (at > bytes_.size()) throw truncated(what);
    at_ = at;
  }

  // Little-endian, as all these formats are.
  template <class T> T number(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  Bytes take(uint64_t count, const char* what) {
    if (count > left()) throw truncated(what);
    const Bytes taken = bytes_.subspan(at_, static_cast<size_t>(count));
    at_ += static_cast<size_t>(count);
    return taken;
  }
  std::string_view text(uint64_t count, const char* what) { return as_text(take(count, what)); }
  // Without its end.
  std::string_view line(const char* what) {
    const size_t end = as_text(bytes_).find('\n', at_);
    if (end == std::string_view::npos) throw truncated(what);
    const std::string_view found = text(end - at_, what);
    ++at_;
    return found;
  }

  Error bad(const std::string& what) const {
    return Error(ErrorCode::bad_input, fmt::format("{}: {} (byte {})", file_, what, at_));
  }

 private:
  Error truncated(const char* what) const {
    return Error(ErrorCode::bad_input,
                 fmt::format("{}: {} lies outside the file (byte {} of {})", file_, what, at_, bytes_.size()))
        .hint("the file may be truncated: make or copy it again");
  }

  Bytes bytes_;
  std::string_view file_;
  size_t at_ = 0;
};

}  // namespace pycandle
