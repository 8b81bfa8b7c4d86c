#include "text/jinja/lexer.h"

#include <fmt/format.h>

#include <algorithm>

#include "text/jinja/value.h"
#include "text/utf8.h"

namespace pycandle::text::jinja {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

class Lexer {
 public:
  explicit Lexer(const std::string& source) : source_(source) {
    if (source_.ends_with('\n')) source_.pop_back();  // Jinja drops one
  }

  std::vector<Word> run() {
    while (at_ < source_.size()) {
      text();
      if (at_ >= source_.size()) break;
      tag();
    }
    add(Word::Kind::end, "");
    return std::move(words_);
  }

 private:
  using Kind = Word::Kind;

  void add(Kind kind, std::string text) { words_.push_back({kind, std::move(text), line_}); }
  bool sees(std::string_view what) const { return source_.compare(at_, what.size(), what) == 0; }
  [[noreturn]] void wrong(const std::string& what) const { fail(fmt::format("line {}: {}", line_, what)); }
  void advance(size_t to) {
    line_ += static_cast<int>(
        std::count(source_.begin() + static_cast<ptrdiff_t>(at_), source_.begin() + static_cast<ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  // Up to the next tag, without the white space that the tags before and after it take away.
  void text() {
    size_t end = at_;
    while ((end = source_.find('{', end)) != std::string::npos) {
      const char next = end + 1 < source_.size() ? source_[end + 1] : '\0';
      if (next == '{' || next == '%' || next == '#') break;
      ++end;
    }
    if (end == std::string::npos) end = source_.size();
    std::string_view found(source_.data() + at_, end - at_);
    if (strip_next_) {
      while (!found.empty() && is_space(found.front())) found.remove_prefix(1);
    } else if (trim_next_ && !found.empty()) {
      if (found.starts_with("\r\n"))
        found.remove_prefix(2);
      else if (found.front() == '\n')
        found.remove_prefix(1);
    }
    const bool tag = end + 2 < source_.size();
    const char control = tag ? source_[end + 2] : '\0';
    if (control == '-') {
      while (!found.empty() && is_space(found.back())) found.remove_suffix(1);
    } else if (end + 1 < source_.size() && source_[end + 1] != '{' && control != '+') {
      // lstrip_blocks: spaces between the beginning of the line and a block or comment.
      size_t kept = found.size();
      while (kept > 0 && (found[kept - 1] == ' ' || found[kept - 1] == '\t')) --kept;
      const bool at_line_begin = kept > 0 ? found[kept - 1] == '\n' : begins_line(end);
      if (at_line_begin) found = found.substr(0, kept);
    }
    if (!found.empty()) add(Kind::text, std::string(found));
    advance(end);
    strip_next_ = trim_next_ = false;
  }

  // Does only white space stand between the last newline and `end`, when the text itself has no newline?
  bool begins_line(size_t end) const {
    size_t i = end;
    while (i > 0 && (source_[i - 1] == ' ' || source_[i - 1] == '\t')) --i;
    return i == 0 || source_[i - 1] == '\n';
  }

  void tag() {
    const char kind = source_[at_ + 1];
    if (kind == '#') return comment();
    const bool block = kind == '%';
    const std::string_view closing = block ? "%}" : "}}";
    at_ += 2;
    if (sees("-") || sees("+")) ++at_;
    if (block && raw()) return;
    add(block ? Kind::block_begin : Kind::output_begin, "");
    int brackets = 0;
    while (true) {
      while (at_ < source_.size() && is_space(source_[at_])) advance(at_ + 1);
      if (at_ >= source_.size()) wrong("a tag has no end");
      const bool controlled = (source_[at_] == '-' || source_[at_] == '+') && source_.compare(at_ + 1, 2, closing) == 0;
      if (brackets == 0 && (controlled || sees(closing))) {
        strip_next_ = source_[at_] == '-';
        trim_next_ = block && source_[at_] != '+';
        at_ += controlled ? 3 : 2;
        break;
      }
      word(brackets);
    }
    add(block ? Kind::block_end : Kind::output_end, "");
  }

  void comment() {
    const size_t end = source_.find("#}", at_ + 2);
    if (end == std::string::npos) wrong("a comment has no end");
    strip_next_ = source_[end - 1] == '-';
    trim_next_ = source_[end - 1] != '+';
    advance(end + 2);
  }

  // {% raw %} … {% endraw %}
  bool raw() {
    size_t i = at_;
    while (i < source_.size() && is_space(source_[i])) ++i;
    if (source_.compare(i, 3, "raw") != 0 || (i + 3 < source_.size() && (is_letter(source_[i + 3]) || is_digit(source_[i + 3]))))
      return false;
    const size_t begin = source_.find("%}", i);
    if (begin == std::string::npos) wrong("a tag has no end");
    size_t end = begin;
    while ((end = source_.find("{%", end)) != std::string::npos) {
      size_t j = end + 2;
      while (j < source_.size() && (is_space(source_[j]) || source_[j] == '-')) ++j;
      if (source_.compare(j, 6, "endraw") == 0) {
        const size_t close = source_.find("%}", j);
        if (close == std::string::npos) break;
        add(Kind::text, source_.substr(begin + 2, end - begin - 2));
        advance(close + 2);
        trim_next_ = true;
        return true;
      }
      end = j;
    }
    wrong("raw has no endraw");
  }

  void word(int& brackets) {
    const char c = source_[at_];
    if (is_letter(c)) {
      size_t end = at_;
      while (end < source_.size() && (is_letter(source_[end]) || is_digit(source_[end]))) ++end;
      add(Kind::name, source_.substr(at_, end - at_));
      at_ = end;
    } else if (is_digit(c)) {
      number();
    } else if (c == '"' || c == '\'') {
      string(c);
    } else {
      sign(brackets);
    }
  }

  void number() {
    size_t end = at_;
    bool real = false;
    while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) ++end;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      real = true;
      for (++end; end < source_.size() && is_digit(source_[end]);) ++end;
    }
    std::string digits = source_.substr(at_, end - at_);
    std::erase(digits, '_');
    add(real ? Kind::real : Kind::integer, digits);
    at_ = end;
  }

  void string(char quote) {
    static constexpr std::string_view kNames = "ntrbfv0\\'\"", kMeanings("\n\t\r\b\f\v\0\\'\"", 10);
    std::string out;
    size_t i = at_ + 1;
    for (; i < source_.size() && source_[i] != quote; ++i) {
      if (source_[i] != '\\' || i + 1 >= source_.size()) {
        out += source_[i];
        continue;
      }
      const char name = source_[++i];
      const int digits = name == 'u' ? 4 : name == 'U' ? 8 : name == 'x' ? 2 : 0;
      if (digits > 0) {
        CodePoint code = 0;
        for (int d = 0; d < digits; ++d) {
          const size_t value = ++i < source_.size()
                                   ? std::string_view("0123456789abcdef").find(static_cast<char>(source_[i] | 0x20))
                                   : std::string_view::npos;
          if (value == std::string_view::npos) wrong("an escape in a string is cut off");
          code = code * 16 + static_cast<CodePoint>(value);
        }
        append(out, code > 0x10FFFF || (code >= 0xD800 && code < 0xE000) ? 0xFFFD : code);
      } else if (const size_t which = kNames.find(name); which != std::string_view::npos) {
        out += kMeanings[which];
      } else {
        out += '\\';
        out += name;
      }
    }
    if (i >= source_.size()) wrong("a string has no end");
    add(Kind::string, out);
    advance(i + 1);
  }

  void sign(int& brackets) {
    static constexpr std::string_view kLong[] = {"==", "!=", "<=", ">=", "//", "**"};
    for (const std::string_view s : kLong) {
      if (!sees(s)) continue;
      add(Kind::sign, std::string(s));
      at_ += 2;
      return;
    }
    const char c = source_[at_];
    if (std::string_view("+-*/%~|.,:()[]{}<>=").find(c) == std::string_view::npos) wrong(fmt::format("'{}' was not expected", c));
    if (c == '(' || c == '[' || c == '{') ++brackets;
    if (c == ')' || c == ']' || c == '}') --brackets;
    if (brackets < 0) wrong("a bracket too many");
    add(Kind::sign, std::string(1, c));
    ++at_;
  }

  std::string source_;
  std::vector<Word> words_;
  size_t at_ = 0;
  int line_ = 1;
  bool strip_next_ = false, trim_next_ = false;
};

}  // namespace

std::vector<Word> lex(const std::string& source) { return Lexer(source).run(); }

}  // namespace pycandle::text::jinja
