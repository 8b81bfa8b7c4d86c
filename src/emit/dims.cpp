// Sizes in the words of the code around them: s1 is input_ids.dim(1).
#include <cctype>

#include "emit/tree.h"

namespace pycandle::emit {
namespace {

std::optional<std::string> find(Dim d, const Graph& g, const Values& scope, const SpellDim& spell) {
  for (const ValueId v : scope) {
    const Shape& shape = g.type(v).shape;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      if (shape[axis] == d) return spell(v, axis);
    }
  }
  return {};
}

bool is_function(std::string_view word) { return word == "floordiv" || word == "mod" || word == "min" || word == "max"; }

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::optional<std::string> write_dim(Dim d, const Graph& g, const Values& scope, const SpellDim& spell,
                                     const std::function<bool(const std::string&)>& data) {
  if (d.is_number()) return std::to_string(d.number());
  if (auto found = find(d, g, scope, spell)) return found;
  // The canonical text, with its symbols replaced.
  const std::string text = d.text();
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '*') out += " * ";
    if (!is_word(text[at])) {
      if (text[at] != '*') out += text[at];
      ++at;
      continue;
    }
    size_t end = at;
    while (end < text.size() && is_word(text[end])) ++end;
    const std::string word = text.substr(at, end - at);
    at = end;
    if (is_function(word) || std::isdigit(static_cast<unsigned char>(word[0])) != 0) {
      out += word;
      continue;
    }
    const auto found = find(Dim::symbol(word), g, scope, spell);
    if (!found && !(data && data(word))) return {};
    out += found ? *found : word;
  }
  return out;
}

}  // namespace pycandle::emit
