// What an element of a tensor is, as a formula over its index: the domain in which masks are proven.
//
// An index variable stands for the position along an axis; integers are Dims over index variables and the sizes of the
// program, so arange(s1)[i] is `i`, and a comparison is one inequality, `i - j >= 0`. Values of the program that are no
// such formula are read at an index: attention_mask[b, j].
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace pycandle {

struct Element;
using ElementPtr = std::shared_ptr<const Element>;

struct Element {
  enum class Kind {
    integer,      // dim; of a floating dtype: the integer as such a number
    number,       // a floating constant
    nonnegative,  // bool: dim >= 0
    all,          // bool: every one of args; none: true
    any,          // bool: one of args; none: false
    read,         // value[indices]
    choice,       // args[0] ? args[1] : args[2]
    applied       // an elementwise op on args
  } kind;
  // NOLINTBEGIN(readability-redundant-member-init): without them gcc warns where a formula names only some members
  DType dtype = DType::boolean;
  Dim dim = {};
  double number = 0;
  ValueId value = kNoValue;
  std::vector<Dim> indices = {};
  bool negated = false;  // read or applied of bool: not that
  std::vector<ElementPtr> args = {};
  std::string op = {};
  Attributes attributes = {};
  size_t size = 1;                         // of the formula
  std::set<std::string> variables = {};    // index variables it depends on
  // NOLINTEND(readability-redundant-member-init)
};

// The index variables, how far each goes, and what is known of the program's sizes.
class IndexSpace {
 public:
  explicit IndexSpace(const SymbolRanges* ranges);
  Dim axis(size_t axis, Dim size);  // the variable for positions along an axis of that size: 0 … size - 1
  Dim fresh(Dim size);              // one more
  Dim size_of(const std::string& variable) const { return sizes_.at(variable); }
  bool is_variable(const std::string& name) const { return sizes_.count(name) != 0; }
  std::set<std::string> variables_of(Dim) const;
  // The factor of a variable in a dim that is linear in it; nothing when it is not.
  std::optional<Dim> factor(Dim, const std::string& variable) const;
  bool always_nonnegative(Dim) const;  // for every index and all sizes; false: not shown
  const SymbolRanges& ranges() const { return ranges_; }

  // ---- formulas, folded where that is proven
  ElementPtr integer(Dim, DType = DType::i64) const;
  ElementPtr number(double, DType) const;
  ElementPtr truth(bool) const;
  ElementPtr nonnegative(Dim) const;
  ElementPtr all(const std::vector<ElementPtr>&) const;
  ElementPtr any(const std::vector<ElementPtr>&) const;
  ElementPtr negation(const ElementPtr&) const;
  ElementPtr choice(const ElementPtr& condition, const ElementPtr& yes, const ElementPtr& no) const;
  ElementPtr read(ValueId, DType, std::vector<Dim> indices) const;
  ElementPtr applied(std::string op, Attributes, std::vector<ElementPtr> args, DType) const;

 private:
  Dim variable(const std::string& name, Dim size);
  ElementPtr junction(Element::Kind, const std::vector<ElementPtr>&) const;

  SymbolRanges ranges_;
  std::map<std::string, int> known_sizes_;
  std::map<std::string, Dim, std::less<>> sizes_;
  int next_ = 0;
};

bool is_true(const Element&);
bool is_false(const Element&);
std::optional<double> constant_of(const Element&);  // an integer or floating number that depends on nothing
bool same_formula(const Element&, const Element&);

// Evaluates values of one graph, to which nodes may be added meanwhile. Work is shared between calls.
class IndexEvaluator {
 public:
  IndexEvaluator(const Graph& graph, IndexSpace& space) : graph_(&graph), space_(&space) {}
  ElementPtr element(ValueId, const std::vector<Dim>& indices);

 private:
  friend struct ElementRules;
  ElementPtr computed(ValueId, const std::vector<Dim>& indices);

  const Graph* graph_;
  IndexSpace* space_;
  std::map<std::string, ElementPtr> known_;
  int depth_ = 0;
  int left_ = 0;  // evaluations that the element asked for may still cost
};

// The tensor whose elements these are, over the variables in this order, with axes of 1 for variables that are not in
// it; kNoValue when a value is read at an index that is no variable of the list.
ValueId materialised(Builder&, const IndexSpace&, const Element&, const std::vector<std::string>& variables);

}  // namespace pycandle
