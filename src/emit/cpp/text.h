// Pieces of C++ text: expressions that know how tightly they bind, and lines that are broken where clang-format leaves them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pycandle::emit::cpp {

// How tightly the outermost operator binds; a smaller one binds tighter.
enum class Binds { primary, unary, product, sum, comparison, bits };

struct Expression {
  std::string text;
  Binds binds = Binds::primary;
  // As an operand of something that binds as tightly as `at`: in parentheses where they are needed, or where gcc asks for them.
  std::string within(Binds at) const;
};

std::string joined(const std::vector<std::string>& parts, std::string_view separator = ", ");

// A template with a place in it, such as "@NAME@", filled in everywhere.
std::string filled(std::string text, std::string_view place, std::string_view value);

constexpr size_t kColumns = 100;
// A statement as lines: where it is too long, broken after operators and between arguments, the outermost first.
// clang-format without a column limit leaves such breaks as they are. `nests`: arguments may be broken themselves, which
// it joins again in initialisers of members.
std::string wrapped(std::string_view text, size_t indent, size_t continued, bool nests = true);
// Where the last call of a member begins in an expression that is f(…).g(…) as a whole; 0 when it is not.
size_t last_member(const std::string& text);

}  // namespace pycandle::emit::cpp
