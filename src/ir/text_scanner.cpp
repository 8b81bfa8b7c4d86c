#include "ir/text_scanner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "ir/graph.h"

namespace pycandle {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_word(char c) { return is_letter(c) || is_digit(c); }

void append_utf8(std::string& into, uint32_t code) {
  auto add = [&](uint32_t byte) { into += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xc0 | code >> 6);
    add(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    add(0xe0 | code >> 12);
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  } else {
    add(0xf0 | code >> 18);
    add(0x80 | (code >> 12 & 0x3f));
    add(0x80 | (code >> 6 & 0x3f));
    add(0x80 | (code & 0x3f));
  }
}

}  // namespace

void TextScanner::skip_space() {
  while (!at_end()) {
    char c = text_[position_];
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') {
      ++position_;
    } else if (text_.substr(position_, 2) == "//") {
      position_ = std::min(text_.find('\n', position_), text_.size());
    } else {
      return;
    }
  }
}

bool TextScanner::accept(char mark) {
  if (peek() != mark || at_end()) return false;
  ++position_;
  return true;
}

void TextScanner::expect(char mark) {
  if (!accept(mark)) unexpected(fmt::format("'{}'", mark));
}

bool TextScanner::accept_word(std::string_view word) {
  skip_space();
  if (text_.substr(position_, word.size()) != word) return false;
  size_t end = position_ + word.size();
  if (end < text_.size() && is_word(text_[end])) return false;
  position_ = end;
  return true;
}

void TextScanner::expect_word(std::string_view word) {
  if (!accept_word(word)) unexpected(fmt::format("'{}'", word));
}

std::string_view TextScanner::word(const char* expected, bool dots) {
  if (!is_letter(peek())) unexpected(expected);
  size_t start = position_;
  while (!at_end() && (is_word(text_[position_]) || (dots && text_[position_] == '.'))) ++position_;
  return text_.substr(start, position_ - start);
}

// The characters a number can have, with its sign; also inf and nan. Whether it is one is for from_chars to say.
std::string_view TextScanner::number_text() {
  size_t start = here();
  if (!at_end() && text_[position_] == '-') ++position_;
  while (!at_end()) {
    char c = text_[position_];
    char before = position_ > start ? text_[position_ - 1] : '\0';
    bool exponent_sign = (c == '-' || c == '+') && (before == 'e' || before == 'E');
    if (!is_word(c) && c != '.' && !exponent_sign) break;
    ++position_;
  }
  return text_.substr(start, position_ - start);
}

bool TextScanner::is_scalar_next() {
  char c = peek();
  if (is_digit(c) || c == '-') return true;
  size_t start = position_;
  bool found = accept_word("true") || accept_word("false") || accept_word("inf") || accept_word("nan") || accept_word("complex");
  position_ = start;
  return found;
}

int64_t TextScanner::integer(const char* expected) {
  size_t start = here();
  std::string_view digits = number_text();
  int64_t value = 0;
  auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure == std::errc::result_out_of_range)
    fail(start, "the number is too large", "a 64-bit integer", std::string(digits.substr(0, 40)));
  if (failure != std::errc{} || end != digits.data() + digits.size()) {
    position_ = start;
    unexpected(expected);
  }
  return value;
}

int32_t TextScanner::index(const char* expected) {
  size_t start = here();
  int64_t value = integer(expected);
  if (value < 0 || value > std::numeric_limits<int32_t>::max())
    fail(start, "the number is out of range", expected, std::to_string(value));
  return static_cast<int32_t>(value);
}

double TextScanner::number() {
  size_t start = here();
  std::string_view digits = number_text();
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (digits == "inf") return infinity;
  if (digits == "-inf") return -infinity;
  if (digits == "nan") return std::numeric_limits<double>::quiet_NaN();
  double value = 0;
  bool is_decimal = std::none_of(digits.begin(), digits.end(), [](char c) { return is_letter(c) && c != 'e' && c != 'E'; });
  auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (failure == std::errc::result_out_of_range)
    fail(start, "the number is out of range", "a 64-bit float", std::string(digits.substr(0, 40)));
  if (!is_decimal || failure != std::errc{} || end != digits.data() + digits.size()) {
    position_ = start;
    unexpected("a number");
  }
  return value;
}

Scalar TextScanner::scalar() {
  if (accept_word("true")) return true;
  if (accept_word("false")) return false;
  if (accept_word("complex")) {
    expect('(');
    double real = number();
    expect(',');
    double imaginary = number();
    expect(')');
    return std::complex<double>(real, imaginary);
  }
  if (!is_scalar_next()) unexpected("a number, true, false or complex(…)");
  size_t start = here();
  std::string_view digits = number_text();
  position_ = start;
  bool is_integer = std::all_of(digits.begin(), digits.end(), [](char c) { return is_digit(c) || c == '-'; });
  if (is_integer) return integer("a number");
  return number();
}

uint32_t TextScanner::hex4(size_t start) {
  uint32_t code = 0;
  std::string_view digits = text_.substr(position_, 4);
  auto [end, failure] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() != 4 || failure != std::errc{} || end != digits.data() + 4) {
    fail(start, "a bad escape in a string", "\\u and four hexadecimal digits", quoted(digits));
  }
  position_ += 4;
  return code;
}

// After the backslash at `start`.
void TextScanner::escape(std::string& into, size_t start) {
  static constexpr std::string_view letters = "\"\\/ntrbf", meanings = "\"\\/\n\t\r\b\f";
  char c = at_end() ? '\0' : text_[position_++];
  if (c != 'u') {
    size_t which = letters.find(c);
    if (which == std::string_view::npos)
      fail(start, "a bad escape in a string", "one of \\\" \\\\ \\/ \\n \\t \\r \\b \\f \\u", quoted(std::string_view(&c, 1)));
    into += meanings[which];
    return;
  }
  uint32_t code = hex4(start);
  if (code >= 0xd800 && code < 0xe000) {  // two of them make one character beyond 16 bits
    uint32_t low = 0;
    if (code < 0xdc00 && text_.substr(position_, 2) == "\\u") {
      position_ += 2;
      low = hex4(start);
    }
    if (low < 0xdc00 || low >= 0xe000)
      fail(start, "a bad escape in a string", "a pair of surrogates", fmt::format("\\u{:04x} alone", code));
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  append_utf8(into, code);
}

std::string TextScanner::string(const char* expected) {
  size_t start = here();
  if (!accept('"')) unexpected(expected);
  std::string value;
  while (true) {
    if (at_end() || text_[position_] == '\n')
      fail(start, "a string does not end", "'\"' on the same line", at_end() ? "the end of the text" : "the end of the line");
    size_t at = position_;
    char c = text_[position_++];
    if (c == '"') return value;
    if (static_cast<unsigned char>(c) < 0x20)
      fail(at, "a control character in a string", "an escape", fmt::format("byte {}", int{c}));
    if (c == '\\') {
      escape(value, at);
    } else {
      value += c;
    }
  }
}

std::string_view TextScanner::dim_text() {
  size_t start = here(), depth = 0;
  while (!at_end()) {
    char c = text_[position_];
    if (c == '(') {
      ++depth;
    } else if (c == ')' || c == ',') {
      if (depth == 0) break;
      if (c == ')') --depth;
    } else if (!is_word(c) && c != '+' && c != '-' && c != '*' && c != ' ' && (depth == 0 || (c != '/' && c != '.'))) {
      break;
    }
    ++position_;
  }
  std::string_view text = text_.substr(start, position_ - start);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  if (text.empty()) {
    position_ = start;
    unexpected("a dim");
  }
  return text;
}

std::string TextScanner::next_token() {
  char c = peek();
  if (at_end()) return "the end of the text";
  size_t end = position_;
  while (end < text_.size() && end - position_ < 40 && is_word(text_[end])) ++end;
  if (end != position_) return fmt::format("'{}'", text_.substr(position_, end - position_));
  bool is_plain = static_cast<unsigned char>(c) >= 0x20 && static_cast<unsigned char>(c) < 0x7f;
  return is_plain ? fmt::format("'{}'", c) : fmt::format("byte {}", static_cast<unsigned char>(c));
}

void TextScanner::unexpected(std::string expected) {
  std::string found = next_token();
  fail(position_, fmt::format("unexpected {}", found), std::move(expected), found);
}

Error TextScanner::error(size_t at, const std::string& message) const {
  std::string_view before = text_.substr(0, at);
  size_t last = before.rfind('\n');
  std::string_view line = last == std::string_view::npos ? before : before.substr(last + 1);
  auto lines = std::count(before.begin(), before.end(), '\n') + 1;
  auto column = std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }) +
                1;
  return Error(ErrorCode::bad_input, fmt::format("{}:{}:{}: {}", name_, lines, column, message));
}

void TextScanner::fail(size_t at, const std::string& message, std::string expected, std::string found) {
  Error e = error(at, message);
  if (!expected.empty()) e.expected(std::move(expected));
  if (!found.empty()) e.found(std::move(found));
  throw e;
}

}  // namespace pycandle
