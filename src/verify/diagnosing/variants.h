// Other things that a node could have computed by mistake: the same op with one of its meanings changed. Tables keyed by
// op (variants_*.cpp) say which; causes.cpp tries them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace pycandle {

// What a variant is made from, in the program that it is put into.
struct VariantSite {
  Builder& b;
  const Node& node;        // as it is
  Values operands;
  double number = 0;       // of a variant that has one to be found

  Values same(Values changed_operands, Attributes changed_attributes) const;  // the same op
  Values same(Values changed_operands) const { return same(std::move(changed_operands), node.attributes); }
  ValueId operand(std::string_view name) const;                               // kNoValue when absent
  Values with_operand(std::string_view name, ValueId) const;                  // the operands, one of them another
};

struct Variant {
  std::string kind;        // "gelu form": what is counted and compared
  std::string now;         // "the erf GELU": what the program has …
  std::string instead;     // "the tanh GELU": … and what the variant has; {} is the number, when one was found
  std::function<Values(const VariantSite&)> build;
  std::vector<double> grid;       // where to look for the number; it is refined between neighbours
  bool only_rounds = false;       // differs by a rounding alone: exact arithmetic cannot tell it apart
};

// The variants of a node, in the words of its op's table.
class Variants {
 public:
  Variants(const Call& call, const Bindings& sizes) : call_(call), sizes_(sizes) {}
  const Call& call() const { return call_; }
  int64_t size(Dim d) const { return d.evaluate(sizes_); }  // of this run

  void add(Variant v) { all_.push_back(std::move(v)); }
  void build(std::string kind, std::string now, std::string instead, std::function<Values(const VariantSite&)>);
  // One attribute another.
  void attribute(std::string kind, std::string name, Attribute value, std::string now, std::string instead);
  void flag(std::string kind, const std::string& name, const std::string& when_true, const std::string& when_false);
  void choice(const std::string& kind, const std::string& name, const std::vector<std::pair<std::string, std::string>>& words);
  void number(std::string kind, const std::string& name, const std::string& what, std::vector<double> grid);
  // One operand another, or none.
  void operand(std::string kind, const std::string& name, std::string now, std::string instead,
               std::function<ValueId(Builder&, ValueId)>);
  void without(std::string kind, const std::string& name, const std::string& what);
  void swapped(std::string kind, const std::string& a, const std::string& b, std::string now, std::string instead);
  // The result changed afterwards.
  void result(std::string kind, std::string now, std::string instead, std::function<ValueId(Builder&, ValueId)>);
  // Another op on the same operands.
  void other_op(std::string kind, const std::string& op, Attributes, std::string now, std::string instead);

  std::vector<Variant>& all() { return all_; }

 private:
  const Call& call_;
  const Bindings& sizes_;
  std::vector<Variant> all_;
};

// The functions that people put after a layer: op, what it is called, attributes.
struct Activation {
  const char *op, *text;
  Attributes attributes;
};
const std::vector<Activation>& activations();

using VariantTable = std::vector<std::pair<std::vector<std::string>, std::function<void(Variants&)>>>;
VariantTable layer_variants();      // norms, activations, linear, convolutions, pools, attention, recurrent
VariantTable arithmetic_variants(); // elementwise, reductions, rounding, data movement

// Every variant of the node, as it stands in `graph`.
std::vector<Variant> variants_of(const Node&, const Graph&, const Bindings& sizes);

}  // namespace pycandle
