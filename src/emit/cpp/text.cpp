#include "emit/cpp/text.h"

#include <algorithm>
#include <utility>

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

// Where the text can be broken without leaving its brackets: spaces after operators that bind as loosely as any in it,
// or, where there is none, after the commas of the call that it ends with.
class Breaks {
 public:
  explicit Breaks(std::string_view text) : text_(text) {}

  std::vector<size_t> find() {
    scan(0, text_.size());
    if (!loosest_.empty()) return loosest_;
    commas_.clear();
    if (text_.ends_with('>')) {  // nn::Sequential<…>
      for (size_t i = 0; i < text_.size(); ++i) {
        if (text_[i] == ' ') commas_.push_back(i);
      }
      return commas_;
    }
    if (last_group_end_ + 1 != text_.size() || last_group_ == std::string_view::npos) return {};
    size_t open = last_group_;
    // f({a, b}): the list is all there is to break.
    if (text_[open] == '(' && text_[open + 1] == '{' && closing(open + 1) + 1 == last_group_end_) ++open;
    scan(open + 1, closing(open));
    return commas_;
  }

  // f(a + b): the only argument of the call that the text ends with, from its first letter on; 0 when there are more.
  size_t only_argument() {
    if (!find().empty() || last_group_ == std::string_view::npos || last_group_end_ + 1 != text_.size()) return 0;
    return text_[last_group_] == '(' ? last_group_ + 1 : 0;
  }

 private:
  // Operators and commas outside of brackets between two places; the last group of brackets there.
  void scan(size_t begin, size_t end) {
    loosest_.clear();
    int loosest = 0;
    for (size_t i = begin; i < end; ++i) {
      const char c = text_[i];
      if (c == '"') {
        i = end_of_string(i);
      } else if (c == '(' || c == '{' || c == '[') {
        last_group_ = i;
        last_group_end_ = i = closing(i);
      } else if (c == ' ' && i > begin && text_[i - 1] == ',') {
        commas_.push_back(i);
      } else if (const int looseness = operator_at(i); looseness > 0) {
        if (looseness > loosest) loosest_.clear();
        loosest = std::max(loosest, looseness);
        if (looseness == loosest) loosest_.push_back(text_.find(' ', i + 1));
      }
    }
  }

  // How loosely the operator binds that stands after the space at i; 0 when there is none.
  int operator_at(size_t i) const {
    static const std::pair<std::string_view, int> kOperators[] = {{" * ", 1},  {" / ", 1}, {" % ", 1},  {" + ", 2},  {" - ", 2},
                                                                  {" < ", 3},  {" > ", 3}, {" <= ", 3}, {" >= ", 3}, {" == ", 3},
                                                                  {" != ", 3}, {" & ", 4}, {" | ", 4},  {" ^ ", 4}};
    for (const auto& [sign, looseness] : kOperators) {
      if (text_.substr(i, sign.size()) == sign) return looseness;
    }
    return 0;
  }

  size_t end_of_string(size_t open) const {
    size_t i = open + 1;
    while (i < text_.size() && text_[i] != '"') i += text_[i] == '\\' ? 2 : 1;
    return std::min(i, text_.size());
  }

  size_t closing(size_t open) const {
    int depth = 0;
    for (size_t i = open; i < text_.size(); ++i) {
      const char c = text_[i];
      if (c == '"') i = end_of_string(i);
      depth += c == '(' || c == '{' || c == '[' ? 1 : c == ')' || c == '}' || c == ']' ? -1 : 0;
      if (depth == 0) return i;
    }
    return text_.size();
  }

  std::string_view text_;
  std::vector<size_t> loosest_, commas_;
  size_t last_group_ = std::string_view::npos, last_group_end_ = 0;
};

// Writes a piece from a column on; `after` columns are needed behind it. What does not fit goes to lines of its own.
class Layout {
 public:
  Layout(size_t column, bool nests) : column_(column), nests_(nests) {}

  void write(std::string_view text, size_t indent, size_t after) {
    if (column_ + text.size() + after <= kColumns) return put(text);
    if (depth_ > 0 && !nests_) return put(text);
    if (const size_t inner = Breaks(text).only_argument(); inner > 0 && nests_) {
      put(text.substr(0, inner));
      write(text.substr(inner, text.size() - 1 - inner), indent + 4, after + 1);
      return put(text.substr(text.size() - 1));
    }
    const std::vector<size_t> breaks = Breaks(text).find();
    if (breaks.empty()) return put(text);
    ++depth_;
    size_t begin = 0;
    bool was_broken = false;
    for (size_t b = 0; b <= breaks.size(); ++b) {
      const size_t end = b < breaks.size() ? breaks[b] : text.size();
      const std::string_view piece = text.substr(begin, end - begin);
      const size_t behind = b < breaks.size() ? 0 : after;
      if (b > 0) {
        if (was_broken || column_ + 1 + piece.size() + behind > kColumns) {
          out_.append("\n").append(indent, ' ');
          column_ = indent;
        } else {
          put(" ");
        }
      }
      const size_t lines = line_count();
      write(piece, indent + 4, behind);
      was_broken = line_count() != lines;
      begin = end + 1;
    }
    --depth_;
  }

  void put(std::string_view text) {
    out_.append(text);
    column_ += text.size();
  }
  std::string text() && { return std::move(out_); }

 private:
  size_t line_count() const { return static_cast<size_t>(std::count(out_.begin(), out_.end(), '\n')); }

  std::string out_;
  size_t column_;
  bool nests_;
  int depth_ = 0;
};

// "return ", "const Tensor x = ", ": ": what stands before the part that can be broken.
size_t start_of(std::string_view text) {
  constexpr std::string_view kReturn = "return ";
  if (text.starts_with(kReturn)) return kReturn.size();
  if (text.starts_with(": ") || text.starts_with("  ")) return 2;
  const size_t assigned = text.find(" = "), bracket = text.find_first_of("(\"");
  return assigned < bracket ? assigned + 3 : 0;
}

size_t end_of(std::string_view text) {
  for (const std::string_view end :
       {std::string_view(" const {"), std::string_view(" {}"), std::string_view(","), std::string_view(";")}) {
    if (text.ends_with(end)) return text.size() - end.size();
  }
  return text.size();
}

}  // namespace

std::string wrapped(std::string_view text, size_t indent, size_t continued, bool nests) {
  const size_t start = start_of(text), end = std::max(end_of(text), start);
  Layout layout(indent, nests);
  layout.put(text.substr(0, start));
  layout.write(text.substr(start, end - start), continued, text.size() - end);
  layout.put(text.substr(end));
  return std::string(indent, ' ').append(std::move(layout).text()).append("\n");
}

}  // namespace pycandle::emit::cpp
