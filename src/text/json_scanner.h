// Reads JSON from left to right without building it: a vocabulary of 256,000 entries is not kept twice.
// Small parts are cut out as text and given to parse_json.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace pycandle::text {

class JsonScanner {
 public:
  // `what` names the file in errors, which are ErrorCode::bad_input.
  JsonScanner(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  // True while another member or element comes; the opening bracket is taken first.
  //   scanner.open('{'); while (scanner.next('}')) { key = scanner.string(); scanner.colon(); … }
  void open(char bracket);
  bool next(char closing);
  void colon();
  char peek();  // the next character that is not white space, or 0
  // A string with its escapes resolved, as valid UTF-8; it stays valid until the next call.
  std::string_view string();
  double number();
  uint32_t id();  // a number that is a token's id
  // The next value as text, whatever it is.
  std::string_view value();
  void end();
  [[noreturn]] void fail(const std::string& expected);

 private:
  void skip_string();
  void unescape(std::string_view raw);
  void append_escaped_code_point(std::string_view raw, size_t& at);

  std::string_view text_;
  std::string what_;
  size_t at_ = 0;
  bool first_ = false;
  std::string buffer_;
};

}  // namespace pycandle::text
