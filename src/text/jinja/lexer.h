// The words of a template.
#pragma once

#include <string>
#include <vector>

namespace pycandle::text::jinja {

struct Word {
  enum class Kind { text, output_begin, output_end, block_begin, block_end, name, string, integer, real, sign, end };
  Kind kind = Kind::end;
  std::string text;
  int line = 1;
};

std::vector<Word> lex(const std::string& source);

}  // namespace pycandle::text::jinja
