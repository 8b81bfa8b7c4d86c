#include "text/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <mutex>

#include "base/error.h"

namespace pycandle::text {
namespace {

// What stands for \s, \S, \w and \W inside a class.
constexpr std::string_view kSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kNotSpace =
    R"(\x{0}-\x{8}\x{e}-\x{1f}\x{21}-\x{84}\x{86}-\x{9f}\x{a1}-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-\x{10ffff})";
// Oniguruma counts the superscripts and fractions of Latin-1 too.
constexpr std::string_view kWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{b2}\x{b3}\x{b9}\x{bc}-\x{be})";

Error refused(const std::string& pattern, const char* what) {
  return Error(ErrorCode::gap, std::string("a regular expression has ") + what).found(pattern);
}

// Reads the pattern from left to right and writes it as PCRE2 has to see it.
class Translation {
 public:
  explicit Translation(const std::string& pattern) : pattern_(pattern) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_character(c);
      } else {
        outside_character(c);
      }
    }
    return out_;
  }

 private:
  void take(size_t count) {
    out_.append(pattern_, at_, count);
    at_ += count;
  }

  void escape() {
    const char name = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    const auto spelt = [&](std::string_view inside, bool negated) {
      out_ += in_class_ ? std::string(inside) : (negated ? "[^" : "[") + std::string(inside) + "]";
      at_ += 2;
    };
    closed_interval_ = false;
    switch (name) {
      case 's': return spelt(kSpace, false);
      case 'S': return in_class_ ? spelt(kNotSpace, false) : spelt(kSpace, true);
      case 'w': return spelt(kWord, false);
      case 'W':
        if (in_class_) throw refused(pattern_, "\\W inside a class, which is not supported");
        return spelt(kWord, true);
      case 'h':
      case 'H': throw refused(pattern_, "\\h, which is not supported");
      default: break;
    }
    take(std::min<size_t>(2, pattern_.size() - at_));
    if (at_ < pattern_.size() && pattern_[at_] == '{') {  // \p{L}, \x{2581}
      const size_t end = pattern_.find('}', at_);
      take(end == std::string::npos ? 1 : end + 1 - at_);
    }
  }

  void class_character(char c) {
    if (c == '[') {
      if (pattern_.compare(at_, 2, "[:") != 0) throw refused(pattern_, "a class inside a class, which is not supported");
      const size_t end = pattern_.find(":]", at_);
      return take(end == std::string::npos ? 1 : end + 2 - at_);
    }
    if (pattern_.compare(at_, 2, "&&") == 0) throw refused(pattern_, "an intersection of classes (&&), which is not supported");
    if (c == ']') in_class_ = false;
    take(1);
  }

  void outside_character(char c) {
    // a{1,3}+ repeats the interval in Ruby's syntax and is possessive in Perl's.
    if (c == '+' && closed_interval_) throw refused(pattern_, "an interval followed by +, which is not supported");
    closed_interval_ = c == '}';
    if (c == '[') {
      in_class_ = true;
      take(1);
      if (at_ < pattern_.size() && pattern_[at_] == '^') take(1);
      if (at_ < pattern_.size() && pattern_[at_] == ']') take(1);
      return;
    }
    take(1);
  }

  const std::string& pattern_;
  std::string out_;
  size_t at_ = 0;
  bool in_class_ = false, closed_interval_ = false;
};

}  // namespace

struct Regex::Compiled {
  pcre2_code* code = nullptr;
  pcre2_match_context* context = nullptr;
  bool jit = false;
  std::string pattern;
  // Match data that no search uses now.
  mutable std::mutex mutex;
  mutable std::vector<pcre2_match_data*> idle;

  Compiled() = default;
  Compiled(const Compiled&) = delete;
  Compiled& operator=(const Compiled&) = delete;
  ~Compiled() {
    for (pcre2_match_data* data : idle) pcre2_match_data_free(data);
    pcre2_match_context_free(context);
    pcre2_code_free(code);
  }

  pcre2_match_data* take() const {
    {
      const std::lock_guard lock(mutex);
      if (!idle.empty()) {
        pcre2_match_data* data = idle.back();
        idle.pop_back();
        return data;
      }
    }
    pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
    if (data == nullptr) throw std::bad_alloc();
    return data;
  }
  void give_back(pcre2_match_data* data) const {
    const std::lock_guard lock(mutex);
    idle.push_back(data);
  }
};

Regex::Regex(const std::string& pattern) {
  auto compiled = std::make_shared<Compiled>();
  compiled->pattern = pattern;
  const std::string translated = Translation(pattern).run();
  int error = 0;
  PCRE2_SIZE where = 0;
  // Ruby's ^ and $ are those of lines.
  compiled->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                 PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error, &where, nullptr);
  if (compiled->code == nullptr) {
    std::array<PCRE2_UCHAR, 200> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    throw Error(ErrorCode::bad_input,
                std::string("a regular expression cannot be read: ") + reinterpret_cast<char*>(message.data()))
        .found(pattern);
  }
  compiled->jit = pcre2_jit_compile(compiled->code, PCRE2_JIT_COMPLETE) == 0;
  compiled->context = pcre2_match_context_create(nullptr);
  // Bounds for expressions that backtrack without end; an ordinary one needs a few hundred steps a match.
  pcre2_set_match_limit(compiled->context, 2'000'000);
  pcre2_set_depth_limit(compiled->context, 200'000);
  pcre2_set_heap_limit(compiled->context, 65'536);
  compiled_ = compiled;
}

void Regex::find_all(std::string_view valid, std::vector<Span>& matches) const {
  const Compiled& re = *compiled_;
  pcre2_match_data* data = re.take();
  const auto subject = reinterpret_cast<PCRE2_SPTR>(valid.data());
  size_t at = 0;
  size_t last_end = static_cast<size_t>(-1);
  int result = 0;
  while (at <= valid.size()) {
    result = re.jit ? pcre2_jit_match(re.code, subject, valid.size(), at, 0, data, re.context) : PCRE2_ERROR_JIT_STACKLIMIT;
    if (result == PCRE2_ERROR_JIT_STACKLIMIT)
      result = pcre2_match(re.code, subject, valid.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, re.context);
    if (result < 0) break;
    const PCRE2_SIZE* ends = pcre2_get_ovector_pointer(data);
    const size_t begin = ends[0], end = ends[1];
    if (begin == end) {
      if (begin != last_end) matches.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
      at = end < valid.size() ? end + decode(valid.data() + end).size : end + 1;
    } else {
      matches.push_back({static_cast<uint32_t>(begin), static_cast<uint32_t>(end)});
      at = end;
    }
    last_end = end;
  }
  re.give_back(data);
  if (result < 0 && result != PCRE2_ERROR_NOMATCH)
    throw Error(ErrorCode::bad_input, "a regular expression of the tokenizer takes too many steps on this text")
        .found(re.pattern);
}

bool is_word_character(CodePoint c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  static const Regex word("[" + std::string(kRustWord) + "]");
  std::string text;
  append(text, c);
  std::vector<Span> matches;
  word.find_all(text, matches);
  return !matches.empty();
}

}  // namespace pycandle::text
