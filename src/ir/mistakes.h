// What people get wrong with an op: the same node with one of its meanings changed. The paragraphs of src/ops say which
// (OpDef::mistakes); verify/causes.cpp tries them where a layer is wrong.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "ir/builder.h"

namespace pycandle {

// Where a mistake is put into a program: the node as it is, and its operands there.
struct MistakeSite {
  Builder& b;
  const Node& node;        // as it is
  Values operands;
  double number = 0;       // of a mistake that has one to be found

  Values same(Values changed_operands, Attributes changed_attributes) const;  // the same op
  Values same(Values changed_operands) const { return same(std::move(changed_operands), node.attributes); }
  ValueId operand(std::string_view name) const;                               // kNoValue when absent
  Values with_operand(std::string_view name, ValueId) const;                  // the operands, one of them another
};

struct Mistake {
  std::string kind;        // "gelu form": what is counted and compared
  std::string now;         // "the erf GELU": what the program has …
  std::string instead;     // "the tanh GELU": … and what the mistake has; {} is the number, when one was found
  std::function<Values(const MistakeSite&)> build;
  std::vector<double> grid;       // where to look for the number; it is refined between neighbours
  bool only_rounds = false;       // differs by a rounding alone: exact arithmetic cannot tell it apart
  std::vector<double> usual = {};  // numbers that people write: each is tried before the grid
  bool has_number() const { return !grid.empty() || !usual.empty(); }
};

// The mistakes of one node.
class Mistakes {
 public:
  Mistakes(const Call& call, const Bindings& sizes, const OpTable& table) : call_(call), sizes_(sizes), table_(table) {}
  const Call& call() const { return call_; }
  int64_t size(Dim d) const { return d.evaluate(sizes_); }  // of this run

  void add(Mistake m) { all_.push_back(std::move(m)); }
  void build(std::string kind, std::string now, std::string instead, std::function<Values(const MistakeSite&)>);
  // One attribute another, or some.
  void attribute(std::string kind, std::string name, Attribute value, std::string now, std::string instead);
  void attributes(std::string kind, Attributes changed, std::string now, std::string instead);
  void flag(std::string kind, const std::string& name, const std::string& when_true, const std::string& when_false);
  void choice(const std::string& kind, const std::string& name, const std::vector<std::pair<std::string, std::string>>& words);
  void number(std::string kind, const std::string& name, const std::string& what, std::vector<double> grid,
              std::vector<double> usual = {});
  // Another axis of x in an attribute that has one axis.
  void other_axis(const std::string& name);
  // One operand another, or none.
  void operand(std::string kind, const std::string& name, std::string now, std::string instead,
               std::function<ValueId(Builder&, ValueId)>);
  void without(std::string kind, const std::string& name, const std::string& what);
  void swapped(std::string kind, const std::string& a, const std::string& b, std::string now, std::string instead);
  // The result changed afterwards.
  void result(std::string kind, std::string now, std::string instead, std::function<ValueId(Builder&, ValueId)>);
  // Another op on the same operands, with attributes of its own or the same ones. Its paragraph says what it is called.
  void other_op(std::string kind, const std::string& op, Attributes, std::string now, std::string instead);
  void other_op(std::string kind, const std::string& op, Attributes);
  void other_op(std::string kind, const std::string& op) { other_op(std::move(kind), op, call_.attributes()); }
  void other_activations();
  // An activation of this operand where several ops compute one.
  void activations_of(const std::string& operand, const std::string& now);
  // Each integer one more, and one less: a window, a stride, the diagonal of a triangle.
  void integers_off_by_one();
  // f32 operands that went through a narrower dtype.
  void narrow_operands();

  std::vector<Mistake>& all() { return all_; }

 private:
  const Call& call_;
  const Bindings& sizes_;
  const OpTable& table_;
  std::vector<Mistake> all_;
};

// Where to look for an epsilon, and for a factor.
extern const std::vector<double> kEpsilons, kFactors;
inline constexpr const char* kOffByOne = "off by one";
// The chunks of an axis in another order.
ValueId reordered(Builder&, ValueId x, int64_t axis, const Ints& order);
// The node that gives the value, when it is of this op.
const Node* made_by(const Graph&, ValueId, std::string_view op);
// The number that every element of the value is, when it is a constant.
std::optional<double> number_of(const Graph&, ValueId);
// The attributes, with some of them changed.
Attributes changed(Attributes, const Attributes& changes);

// What people call this call: "the tanh GELU"; the op's name where its paragraph has no noun.
const std::string& noun_of(const Call&);

// The functions that people put after a layer.
struct Activation {
  const OpDef* op;
  const CalledAs* called;
};
std::vector<Activation> activations(const OpTable&);

// Every mistake of the node, as it stands in `graph`.
std::vector<Mistake> mistakes_of(const Node&, const Graph&, const Bindings& sizes, const OpTable&);

}  // namespace pycandle
