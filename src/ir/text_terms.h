// What lines of the text form are made of: dims, types, attributes, literals. ir/text_parser.cpp reads the lines.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "ir/op_def.h"
#include "ir/text_scanner.h"

namespace pycandle {

class TextTerms {
 public:
  explicit TextTerms(TextScanner& in) : in_(in) {}

  bool declare(const std::string& symbol) { return symbols_.insert(symbol).second; }  // false: it is declared already
  Dim dim();                                  // over symbols that are declared
  DType dtype();
  Type type();
  Attribute attribute(AttrKind);
  decltype(Tree::literal) literal();

  // [a, b, c]
  template <class Item> auto list(const Item& item) {
    std::vector<decltype(item())> items;
    in_.expect('[');
    if (in_.accept(']')) return items;
    do {
      items.push_back(item());
    } while (in_.accept(','));
    in_.expect(']');
    return items;
  }

 private:
  TextScanner& in_;
  std::set<std::string, std::less<>> symbols_;
  std::map<std::string, Dim, std::less<>> dims_;  // by text: most are written many times
};

}  // namespace pycandle
