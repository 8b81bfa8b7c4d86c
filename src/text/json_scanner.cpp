#include "text/json_scanner.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>

#include "base/error.h"
#include "text/utf8.h"

namespace pycandle::text {

void JsonScanner::fail(const std::string& expected) {
  throw Error(ErrorCode::bad_input, fmt::format("{} cannot be read at byte {}", what_, at_)).expected(expected);
}

char JsonScanner::peek() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t' || text_[at_] == '\r')) ++at_;
  return at_ < text_.size() ? text_[at_] : '\0';
}

void JsonScanner::open(char bracket) {
  if (peek() != bracket) fail(std::string("a ") + bracket);
  ++at_;
  first_ = true;
}

bool JsonScanner::next(char closing) {
  const char c = peek();
  if (c == closing) {
    ++at_;
    first_ = false;
    return false;
  }
  if (!first_) {
    if (c != ',') fail(fmt::format("a comma or {}", closing));
    ++at_;
    if (peek() == closing) fail("another element");
  }
  first_ = false;
  return true;
}

void JsonScanner::colon() {
  if (peek() != ':') fail("a colon");
  ++at_;
}

void JsonScanner::skip_string() {
  if (peek() != '"') fail("a string");
  for (++at_; at_ < text_.size(); ++at_) {
    if (text_[at_] == '"') {
      ++at_;
      return;
    }
    if (text_[at_] == '\\') ++at_;
  }
  fail("the end of a string");
}

std::string_view JsonScanner::string() {
  if (peek() != '"') fail("a string");
  const size_t begin = ++at_;
  const auto* quote = static_cast<const char*>(std::memchr(text_.data() + begin, '"', text_.size() - begin));
  if (quote == nullptr) fail("the end of a string");
  std::string_view raw = text_.substr(begin, static_cast<size_t>(quote - text_.data()) - begin);
  if (raw.find('\\') != std::string_view::npos) {
    --at_;
    skip_string();
    unescape(text_.substr(begin, at_ - 1 - begin));
    return buffer_;
  }
  at_ = begin + raw.size() + 1;
  for (const char c : raw) {
    if (static_cast<unsigned char>(c) < 0x20) fail("no control character in a string");
  }
  if (is_ascii(raw) || is_valid(raw)) return raw;
  fail("valid UTF-8");
}

namespace {

// Four hexadecimal digits, or -1.
int hex4(std::string_view raw, size_t at) {
  if (at + 4 > raw.size()) return -1;
  int value = 0;
  const auto [end, error] = std::from_chars(raw.data() + at, raw.data() + at + 4, value, 16);
  return error == std::errc() && end == raw.data() + at + 4 ? value : -1;
}

}  // namespace

// `at` is behind the u of \uXXXX. Half of a surrogate pair alone becomes U+FFFD.
void JsonScanner::append_escaped_code_point(std::string_view raw, size_t& at) {
  const int first = hex4(raw, at);
  if (first < 0) fail("four hexadecimal digits after \\u");
  at += 4;
  auto code = static_cast<CodePoint>(first);
  if (code >= 0xD800 && code < 0xE000) {
    const int second = code < 0xDC00 && raw.substr(at, 2) == "\\u" ? hex4(raw, at + 2) : -1;
    if (second >= 0xDC00 && second < 0xE000) {
      code = 0x10000 + ((code - 0xD800) << 10) + (static_cast<CodePoint>(second) - 0xDC00);
      at += 6;
    } else {
      code = 0xFFFD;
    }
  }
  append(buffer_, code);
}

void JsonScanner::unescape(std::string_view raw) {
  static constexpr std::string_view kNames = "\"\\/bfnrt", kMeanings = "\"\\/\b\f\n\r\t";
  buffer_.clear();
  for (size_t i = 0; i < raw.size();) {
    if (raw[i] != '\\') {
      if (static_cast<unsigned char>(raw[i]) < 0x20) fail("no control character in a string");
      buffer_ += raw[i++];
      continue;
    }
    const char name = i + 1 < raw.size() ? raw[i + 1] : '\0';
    i += 2;
    if (name == 'u') {
      append_escaped_code_point(raw, i);
    } else if (const size_t which = kNames.find(name); which != std::string_view::npos && name != '\0') {
      buffer_ += kMeanings[which];
    } else {
      fail("an escape that JSON has");
    }
  }
  if (!is_valid(buffer_)) fail("valid UTF-8");
}

// Digits times a power of ten, rounded twice, as the JSON reader of `tokenizers` has it. The nearest number may be another:
// where two ways to cut a text have the same scores in another order, the last bit decides.
double JsonScanner::number() {
  peek();
  const size_t begin = at_;
  const auto digit = [&] { return at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; };
  const bool negative = at_ < text_.size() && text_[at_] == '-';
  if (negative) ++at_;
  uint64_t digits = 0;
  int exponent = 0;
  bool any = false, full = false;
  const auto take = [&](bool fraction) {
    for (; digit(); ++at_, any = true) {
      const auto next = static_cast<uint64_t>(text_[at_] - '0');
      full = full || digits > (UINT64_MAX - next) / 10;
      if (!full) digits = digits * 10 + next;
      if (full ? !fraction : fraction) exponent += fraction ? -1 : 1;
      if (exponent > 100'000) fail("a number");
    }
  };
  take(false);
  if (at_ < text_.size() && text_[at_] == '.') {
    ++at_;
    take(true);
  }
  if (any && at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    ++at_;
    if (at_ < text_.size() && text_[at_] == '+') ++at_;
    int written = 0;
    const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), written);
    if (error != std::errc() || written > 100'000 || written < -100'000) fail("a number");
    at_ = static_cast<size_t>(end - text_.data());
    exponent += written;
  }
  if (!any) {
    at_ = begin;
    fail("a number");
  }
  auto value = static_cast<double>(digits);
  for (; exponent > 308; exponent -= 308) value *= 1e308;
  for (; exponent < -308 && value != 0; exponent += 308) value /= 1e308;
  const double scale = std::pow(10.0, std::abs(exponent));
  value = exponent < 0 ? value / scale : value * scale;
  if (!std::isfinite(value)) fail("a number");
  return negative ? -value : value;
}

uint32_t JsonScanner::id() {
  peek();
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc()) fail("the id of a token");
  at_ = static_cast<size_t>(end - text_.data());
  return value;
}

std::string_view JsonScanner::value() {
  peek();
  const size_t begin = at_;
  int depth = 0;
  do {
    const char c = peek();
    if (c == '"') {
      skip_string();
    } else if (c == '{' || c == '[') {
      ++depth;
      ++at_;
    } else if (c == '}' || c == ']') {
      if (--depth < 0) fail("a value");
      ++at_;
    } else if (c == '\0') {
      fail("a value");
    } else if (c == ',' || c == ':') {
      if (depth == 0) fail("a value");
      ++at_;
    } else {
      while (at_ < text_.size() && std::string_view(" \n\t\r,:{}[]\"").find(text_[at_]) == std::string_view::npos) ++at_;
    }
  } while (depth > 0);
  first_ = false;
  return text_.substr(begin, at_ - begin);
}

void JsonScanner::end() {
  if (peek() != '\0' || at_ < text_.size()) fail("the end of the file");
}

}  // namespace pycandle::text
