#include "emit/cpp/text.h"

namespace pycandle::emit::cpp {

std::string Expression::within(Binds at) const {
  const bool fits = binds == Binds::primary || binds < at;
  // a == (b & c): legal without them, and a warning
  return fits && !(binds > Binds::sum) ? text : "(" + text + ")";
}

std::string joined(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (size_t i = 0; i < parts.size(); ++i) text.append(i > 0 ? separator : "").append(parts[i]);
  return text;
}

namespace {

// Is it one call that everything else belongs to: "const Tensor x = f(…);", and not "f(…) + y" or "f(…).g()"?
bool is_one_call(std::string_view before, std::string_view after) {
  for (const char* sign :
       {" + ", " - ", " * ", " / ", " % ", " & ", " | ", " ^ ", " < ", " > ", " == ", " != ", " <= ", " >= "}) {
    if (before.find(sign) != std::string_view::npos) return false;
  }
  return after.find_first_of("(.+*-/%<>&|^=?") == std::string_view::npos;
}

// The spaces at which the text can be broken: after commas between the arguments of its one outermost call.
std::vector<size_t> breaks_of(std::string_view text) {
  std::vector<size_t> found;
  bool in_string = false;
  int round = 0, other = 0;
  size_t opens = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"' && (i == 0 || text[i - 1] != '\\')) in_string = !in_string;
    if (in_string) continue;
    if (c == '(' && ++round == 1 && opens == 0) opens = i;
    if (c == ')' && --round == 0) return is_one_call(text.substr(0, opens), text.substr(i + 1)) ? found : std::vector<size_t>();
    other += c == '{' || c == '[' ? 1 : c == '}' || c == ']' ? -1 : 0;
    if (c == ' ' && i > 0 && text[i - 1] == ',' && round == 1 && other == 0) found.push_back(i);
  }
  return {};
}

}  // namespace

std::string wrapped(std::string_view text, size_t indent, size_t continued) {
  std::string out(indent, ' ');
  size_t begin = 0, column = indent;
  const std::vector<size_t> breaks = breaks_of(text);
  for (size_t b = 0; b < breaks.size(); ++b) {
    if (column + text.size() - begin <= kColumns) break;
    // The piece up to the next break no longer fits, or nothing after this one does anyway.
    const size_t next = b + 1 < breaks.size() ? breaks[b + 1] : text.size();
    if (column + next - begin <= kColumns) continue;
    out.append(text.substr(begin, breaks[b] - begin)).append("\n").append(continued, ' ');
    begin = breaks[b] + 1;
    column = continued;
  }
  return out.append(text.substr(begin)).append("\n");
}

}  // namespace pycandle::emit::cpp
