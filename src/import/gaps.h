// What the catalogue does not support, collected over a whole program.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "import/importer.h"

namespace pycandle {

class Gaps {
 public:
  explicit Gaps(const OpTable& table) : table_(&table) {}

  void add(const std::string& op, const std::string& reason, const std::string& place, bool is_known_overload);
  bool empty() const { return found_.empty(); }
  int count() const;
  std::vector<Gap> sorted() const;                     // by count, then name
  // All of them as one error: each with its count, lines and suggestion.
  Error error(const Program&, int nodes) const;

 private:
  std::string suggestion(const std::string& op) const;
  const OpTable* table_;
  std::map<std::pair<std::string, std::string>, Gap> found_;
};

// "transformer.h.3.mlp@0, gpt2.py:131: x = …", as much of it as is known.
std::string place_text(const Program&, const Origin&);

}  // namespace pycandle
