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

std::string filled(std::string text, std::string_view place, std::string_view value) {
  for (size_t at = text.find(place); at != std::string::npos; at = text.find(place, at + value.size())) {
    text.replace(at, place.size(), value);
  }
  return text;
}

namespace {

// A text as pieces with signs between them: `head piece sign piece … tail`. The pieces are operands of the operators that
// bind most loosely, or, where there is no operator, arguments of the call or list that the text ends with.
struct Pieces {
  std::string_view head, tail;
  std::vector<std::string_view> pieces, signs;  // each sign stands behind its piece: ",", " +"
  bool by_operators = false;
};

class Cutter {
 public:
  explicit Cutter(std::string_view text) : text_(text) {}

  Pieces cut() {
    scan(0, text_.size());
    if (!operators_.empty()) {
      Pieces found = at(operators_, 0, text_.size());
      found.by_operators = true;
      return found;
    }
    if (text_.ends_with('>')) {  // nn::Sequential<A, B>
      const size_t open = text_.find('<') + 1;
      scan(open, text_.size() - 1);
      return at(commas_, open, text_.size() - 1);
    }
    if (last_group_ == std::string_view::npos || last_group_end_ + 1 != text_.size()) return {};
    size_t open = last_group_, close = last_group_end_;
    const bool is_member = has_call_before(open);
    // f({a, b}): the list is all there is to cut.
    if (text_[open] == '(' && text_[open + 1] == '{' && closing(open + 1) + 1 == close) {
      ++open;
      --close;
    }
    scan(open + 1, close);
    if (is_member && !commas_.empty()) return {};  // f(x).g(a, b) is not broken so that clang-format leaves it
    return at(commas_, open + 1, close);
  }

 private:
  struct Sign {
    size_t begin, end;  // of " + " or ", ", without the last space
  };

  Pieces at(const std::vector<Sign>& signs, size_t begin, size_t end) const {
    Pieces found{text_.substr(0, begin), text_.substr(end), {}, {}, false};
    for (const Sign& sign : signs) {
      found.pieces.push_back(text_.substr(begin, sign.begin - begin));
      found.signs.push_back(text_.substr(sign.begin, sign.end - sign.begin));
      begin = sign.end + 1;
    }
    found.pieces.push_back(text_.substr(begin, end - begin));
    return found;
  }

  // Operators and commas outside of brackets between two places; the last group of brackets there.
  void scan(size_t begin, size_t end) {
    operators_.clear();
    commas_.clear();
    int loosest = 0;
    for (size_t i = begin; i < end; ++i) {
      const char c = text_[i];
      if (c == '"') {
        i = end_of_string(i);
      } else if (c == '(' || c == '{' || c == '[') {
        last_group_ = i;
        last_group_end_ = i = closing(i);
      } else if (c == ',') {
        commas_.push_back({i, i + 1});
      } else if (const int looseness = operator_at(i); looseness > 0) {
        if (looseness > loosest) operators_.clear();
        loosest = std::max(loosest, looseness);
        if (looseness == loosest) operators_.push_back({i, text_.find(' ', i + 1)});
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

  bool has_call_before(size_t open) const { return text_.substr(0, open).find('(') != std::string_view::npos; }

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
  std::vector<Sign> operators_, commas_;
  size_t last_group_ = std::string_view::npos, last_group_end_ = 0;
};

// Without operators outside of its brackets.
bool is_one_primary(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' || c == '{' || c == '[' ? 1 : c == ')' || c == '}' || c == ']' ? -1 : 0;
    if (depth == 0 && c == ' ') return false;
  }
  return true;
}

// x.reshape({2, 3}).transpose(1, 2) as "x.reshape({2, 3})" and ".transpose(1, 2)"; nothing when it is no chain of calls.
std::vector<std::string_view> links(std::string_view text) {
  if (!is_one_primary(text)) return {};
  std::vector<std::string_view> found;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      while (++i < text.size() && text[i] != '"') i += text[i] == '\\' ? 1 : 0;
      continue;
    }
    depth += c == '(' || c == '{' || c == '[' ? 1 : c == ')' || c == '}' || c == ']' ? -1 : 0;
    if (depth != 0 || c != '.' || i == 0 || text[i - 1] != ')') continue;
    found.push_back(text.substr(begin, i - begin));
    begin = i;
  }
  if (found.empty()) return {};
  found.push_back(text.substr(begin));
  return found;
}

// Writes a text from a column on; `after` columns are needed behind it. What does not fit goes to lines of its own.
class Layout {
 public:
  // chain_starts_at: where a chain that is the whole text counts from; 0: from where it begins
  Layout(size_t column, bool nests, size_t chain_starts_at) : column_(column), chain_starts_at_(chain_starts_at), nests_(nests) {}

  void write(std::string_view text, size_t indent, size_t after) {
    if (column_ + text.size() + after <= kColumns) return put(text);
    const auto chain = links(text);
    const bool is_tied = !chain.empty() && chain[0].starts_with("(w /");  // clang-format leaves those in initialisers, too
    if (depth_ > 0 && !nests_ && !is_tied) return put(text);
    if (is_tied || chain.size() > 2) return write_chain(chain, after);
    const Pieces cut = Cutter(text).cut();
    if (cut.pieces.empty()) return chain.empty() ? put(text) : write_chain(chain, after);
    ++depth_;
    put(cut.head);
    const bool one_each = text.starts_with("{.");  // clang-format joins options, unless each has its line
    bool was_broken = false;
    for (size_t i = 0; i < cut.pieces.size(); ++i) {
      const std::string_view piece = cut.pieces[i];
      const size_t behind = i < cut.signs.size() ? cut.signs[i].size() : after + cut.tail.size();
      if (i > 0 && (was_broken || one_each || column_ + 1 + piece.size() + behind > kColumns)) {
        out_.append("\n").append(indent, ' ');
        column_ = indent;
      } else if (i > 0) {
        put(" ");
      }
      const auto lines = std::count(out_.begin(), out_.end(), '\n');
      // A call or a list before other arguments is left whole, on a line of its own where it is long: clang-format would
      // align what is broken in it with its bracket.
      const bool is_first = i == 0 && !cut.signs.empty() && !cut.by_operators;
      const bool is_list = piece.starts_with('{') && i < cut.signs.size();
      const bool is_whole = is_list || (is_first && !Cutter(piece).cut().by_operators);
      if (is_first && is_whole && column_ + piece.size() + behind > kColumns && cut.head.ends_with('(')) {
        out_.append("\n").append(indent, ' ');
        column_ = indent;
      }
      if (is_list && column_ + piece.size() + behind > kColumns) {
        write(piece, column_ + 4, behind);
      } else if (is_whole) {
        put(piece);
      } else {
        // clang-format counts from where an operand begins
        write(piece, cut.signs.empty() ? indent : (cut.by_operators ? column_ : indent) + 4, behind);
      }
      was_broken = std::count(out_.begin(), out_.end(), '\n') != lines;
      if (i < cut.signs.size()) put(cut.signs[i]);
    }
    put(cut.tail);
    --depth_;
  }

  // Each call of a chain on a line of its own, below where the chain begins; clang-format counts a return from its statement.
  void write_chain(const std::vector<std::string_view>& chain, size_t after) {
    const size_t indent = (chain_starts_at_ > 0 && depth_ == 0 ? chain_starts_at_ : column_) + 4;
    ++depth_;
    for (size_t i = 0; i < chain.size(); ++i) {
      if (i > 0) {
        out_.append("\n").append(indent, ' ');
        column_ = indent;
      }
      write(chain[i], indent + 4, i + 1 == chain.size() ? after : 0);
    }
    --depth_;
  }

  void put(std::string_view text) {
    out_.append(text);
    column_ += text.size();
  }
  std::string text() && { return std::move(out_); }

 private:
  std::string out_;
  size_t column_, chain_starts_at_;
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
  Layout layout(indent, nests, text.starts_with("return ") ? indent : 0);
  layout.put(text.substr(0, start));
  layout.write(text.substr(start, end - start), continued, text.size() - end);
  layout.put(text.substr(end));
  return std::string(indent, ' ').append(std::move(layout).text()).append("\n");
}

size_t last_member(const std::string& text) {
  int depth = 0;
  for (size_t i = text.size(); i-- > 0;) {
    const char c = text[i];
    depth += c == ')' || c == '}' || c == ']' ? 1 : c == '(' || c == '{' || c == '[' ? -1 : 0;
    if (depth == 0 && c == ' ') return 0;  // an operator
    if (depth == 0 && c == '.' && i > 0 && text[i - 1] == ')') {
      return is_one_primary(text.substr(0, i)) ? i : 0;
    }
  }
  return 0;
}

}  // namespace pycandle::emit::cpp
