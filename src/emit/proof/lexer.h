// C++ text as words and signs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pycandle::emit::proof {

struct Token {
  enum class Kind { name, number, string, sign, end } kind = Kind::end;
  std::string text;       // names with their namespaces: nn::Linear; strings without quotes and escapes
  size_t line = 0;
  bool touches = false;   // nothing stands between it and what is before it: chunk<3>, a < 3
};

std::vector<Token> tokens_of(std::string_view text);

}  // namespace pycandle::emit::proof
