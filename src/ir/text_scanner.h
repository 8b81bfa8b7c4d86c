// The words of the text form: names, numbers, strings, marks. Newlines mean no more than spaces; // starts a comment.
// Every error names line and column.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "base/error.h"

namespace pycandle {

class TextScanner {
 public:
  TextScanner(std::string_view text, std::string_view name) : text_(text), name_(name) {}

  size_t here() {
    skip_space();
    return position_;
  }   // where the next token starts
  char peek() {
    skip_space();
    return at_end() ? '\0' : text_[position_];
  }
  bool at_end() const { return position_ == text_.size(); }

  bool accept(char mark);                 // takes it when it is next
  void expect(char mark);
  bool accept_word(std::string_view word);  // a whole word: "in" is not the start of "input"
  void expect_word(std::string_view word);
  std::string_view word(const char* expected, bool dots = false);  // letters, digits, _; dots where asked for

  int64_t integer(const char* expected);
  int32_t index(const char* expected);    // an integer of 0 … 2^31 - 1
  double number();                        // 1  -0.5  1e-05  inf  -inf  nan
  Scalar scalar();                        // true, 3, 0.5, complex(0.0, 1.0): an integer has neither point nor exponent
  bool is_scalar_next();
  std::string string(const char* expected);

  // Text up to a mark that cannot stand in a dim, with balanced parentheses.
  std::string_view dim_text();

  [[noreturn]] void unexpected(std::string expected);  // at the next token
  [[noreturn]] void fail(size_t at, const std::string& message, std::string expected = {}, std::string found = {});
  Error error(size_t at, const std::string& message) const;

 private:
  void skip_space();
  std::string_view number_text();
  std::string next_token();
  void escape(std::string& into, size_t start);
  uint32_t hex4(size_t start);

  std::string_view text_, name_;
  size_t position_ = 0;
};

}  // namespace pycandle
