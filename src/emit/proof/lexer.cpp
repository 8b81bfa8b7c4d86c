#include "emit/proof/lexer.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <charconv>

#include "base/error.h"

namespace pycandle::emit::proof {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

class Lexer {
 public:
  explicit Lexer(std::string_view text) : text_(text) {}

  std::vector<Token> tokens() {
    while (skip_space(), at_ < text_.size()) {
      const bool touches = at_ > 0 && at_ == end_of_last_;
      Token token = next();
      token.touches = touches;
      found_.push_back(std::move(token));
      end_of_last_ = at_;
    }
    found_.push_back({Token::Kind::end, {}, line_, false});
    return std::move(found_);
  }

 private:
  char peek(size_t more = 0) const { return at_ + more < text_.size() ? text_[at_ + more] : '\0'; }

  void skip_space() {
    for (;;) {
      if (peek() == '\n') ++line_;
      if (std::isspace(static_cast<unsigned char>(peek())) != 0) {
        ++at_;
      } else if (peek() == '#' || (peek() == '/' && peek(1) == '/')) {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (peek() == '/' && peek(1) == '*') {
        at_ = std::min(text_.find("*/", at_), text_.size() - 2) + 2;
      } else {
        return;
      }
    }
  }

  Token next() {
    if (peek() == '"') return string();
    if (is_digit(peek())) return number();
    if (is_word(peek())) return name();
    static constexpr std::array<std::string_view, 6> kLong{"==", "!=", "<=", ">=", "++", "&&"};
    for (const std::string_view sign : kLong) {
      if (text_.substr(at_, 2) != sign) continue;
      at_ += 2;
      return {Token::Kind::sign, std::string(sign), line_, false};
    }
    return {Token::Kind::sign, std::string(1, text_[at_++]), line_, false};
  }

  Token name() {
    const size_t begin = at_;
    while (is_word(peek()) || (peek() == ':' && peek(1) == ':' && is_word(peek(2)))) at_ += peek() == ':' ? 2 : 1;
    return {Token::Kind::name, std::string(text_.substr(begin, at_ - begin)), line_, false};
  }

  Token number() {
    const size_t begin = at_;
    while (is_word(peek()) || peek() == '.' || ((peek() == '-' || peek() == '+') && (text_[at_ - 1] | 0x20) == 'e')) ++at_;
    return {Token::Kind::number, std::string(text_.substr(begin, at_ - begin)), line_, false};
  }

  Token string() {
    std::string content;
    for (++at_; peek() != '"'; ++at_) {
      if (at_ >= text_.size()) throw Error(ErrorCode::gap, "a string does not end").found(fmt::format("line {}", line_));
      content += peek() == '\\' ? escaped() : std::string(1, peek());
    }
    ++at_;
    return {Token::Kind::string, std::move(content), line_, false};
  }

  // Leaves `at_` on the last letter of the escape.
  std::string escaped() {
    ++at_;
    const char c = peek();
    if (c == 'n') return "\n";
    if (c == 't') return "\t";
    if (c == 'r') return "\r";
    if (c != 'u') return std::string(1, c);
    const std::string_view digits = text_.substr(std::min(at_ + 1, text_.size()), 4);
    uint8_t code = 0;  // of a control character
    std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
    at_ += 4;
    return std::string(1, static_cast<char>(code));
  }

  std::string_view text_;
  size_t at_ = 0, end_of_last_ = 0, line_ = 1;
  std::vector<Token> found_;
};

}  // namespace

std::vector<Token> tokens_of(std::string_view text) { return Lexer(text).tokens(); }

}  // namespace pycandle::emit::proof
