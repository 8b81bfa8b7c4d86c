// Regular expressions of tokenizer.json. They are written for Oniguruma in its Ruby syntax; this runs them with PCRE2, in
// which the classes \s and \w are spelt out, since the two libraries mean different characters by them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "text/aligned_text.h"

namespace pycandle::text {

class Regex {
 public:
  // ErrorCode::gap for what the two syntaxes read differently, bad_input for what is no expression.
  explicit Regex(const std::string& pattern);
  // Matches in order, none overlapping; an empty match never touches the one before it.
  void find_all(std::string_view valid, std::vector<Span>& matches) const;

  struct Compiled;

 private:
  std::shared_ptr<const Compiled> compiled_;
};

// What Rust's \w means, inside a class: some components of `tokenizers` use Rust's expressions.
constexpr std::string_view kRustWord = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\x{200c}\x{200d})";
bool is_word_character(CodePoint);

}  // namespace pycandle::text
