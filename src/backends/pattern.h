// Typed patterns: a small graph with named holes, what was found as a view with a member for each hole, and what takes its place.
//
//   struct BiasedRelu {                          // relu(x + broadcast(bias))
//     ValueId x, bias;
//     FoundNode broadcast;                       // its attributes
//     static Pattern<BiasedRelu> pattern() {
//       using V = BiasedRelu;
//       return node<V>("relu", node<V>("add", hole(&V::x), node<V>("broadcast", hole(&V::bias)).as(&V::broadcast)));
//     }
//   };
//   p = rewrite_matches<BiasedRelu>(std::move(p), table, [](Builder& b, const BiasedRelu& found) -> std::optional<ValueId> { …
//   });
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/builder.h"

namespace pycandle {

// A node of the old graph that a pattern found.
struct FoundNode {
  const OpDef* op = nullptr;
  Attributes attributes;
  Type type;  // of its first result
  const Attribute& attribute(std::string_view name) const;  // internal when the op has none of that name
};

// One of the terms that a pattern is made of. Operands that the pattern does not mention must be absent.
struct PatternTerm {
  enum class Kind { node, hole, number } kind = Kind::hole;
  std::string op;  // node: its name
  std::vector<size_t> operands;  // node: terms
  std::optional<size_t> slot;  // which hole, number or node of the view it fills
};

// What was found, by slot.
struct PatternMatch {
  std::vector<ValueId> holes;
  std::vector<double> numbers;
  std::vector<FoundNode> nodes;
  std::vector<NodeId> inside;  // nodes below the root that nobody else uses
};

struct PatternTerms {
  std::vector<PatternTerm> terms;  // the root is the last
  size_t holes = 0, numbers = 0, nodes = 0;
};

template <class View> struct Pattern {
  PatternTerms terms;
  std::vector<ValueId View::*> holes;
  std::vector<double View::*> numbers;
  std::vector<FoundNode View::*> nodes;

  // The view's member that tells about this node.
  Pattern as(FoundNode View::* member) && {
    terms.terms.back().slot = terms.nodes++;
    nodes.push_back(member);
    return std::move(*this);
  }
  View view(const PatternMatch& match) const {
    View view{};
    for (size_t i = 0; i < holes.size(); ++i) view.*holes[i] = match.holes[i];
    for (size_t i = 0; i < numbers.size(); ++i) view.*numbers[i] = match.numbers[i];
    for (size_t i = 0; i < nodes.size(); ++i) view.*nodes[i] = match.nodes[i];
    return view;
  }
};

// Any value; holes of one member are one value.
template <class View> Pattern<View> hole(ValueId View::* member) {
  return {{{{PatternTerm::Kind::hole, {}, {}, 0}}, 1, 0, 0}, {member}, {}, {}};
}
// A constant of any shape whose elements are all this number.
template <class View> Pattern<View> number(double View::* member) {
  return {{{{PatternTerm::Kind::number, {}, {}, 0}}, 0, 1, 0}, {}, {member}, {}};
}

// Adds the terms of `other`; gives the number of its root. `slots`: of the holes that it shares with what is there.
size_t append_terms(PatternTerms& to, PatternTerms other, const std::vector<size_t>& hole_slots);

// A node of this op with one result. The operands of a commutative op may stand in either order.
template <class View, class... Operands> Pattern<View> node(std::string op, Operands... operands) {
  Pattern<View> all;
  PatternTerm term{PatternTerm::Kind::node, std::move(op), {}, {}};
  [[maybe_unused]] const auto add = [&](Pattern<View> operand) {
    std::vector<size_t> slots;
    for (ValueId View::* member : operand.holes) {
      size_t slot = 0;
      while (slot < all.holes.size() && all.holes[slot] != member) ++slot;
      if (slot == all.holes.size()) all.holes.push_back(member);
      slots.push_back(slot);
    }
    all.numbers.insert(all.numbers.end(), operand.numbers.begin(), operand.numbers.end());
    all.nodes.insert(all.nodes.end(), operand.nodes.begin(), operand.nodes.end());
    term.operands.push_back(append_terms(all.terms, std::move(operand.terms), slots));
  };
  (add(std::move(operands)), ...);
  all.terms.terms.push_back(std::move(term));
  all.terms.holes = all.holes.size();
  return all;
}

// Looks at every node of the program's own graph, later ones first, for what the pattern says. Nodes inside a match have no other
// users; each stands in one match. `replace` gets the match with holes that are values of the new graph, and gives what stands
// for the root's result, or nothing to leave it. Taps on swallowed values are marked as inside the new one.
Program rewrite_matches(Program, const OpTable&, const PatternTerms&,
                        const std::function<std::optional<ValueId>(Builder&, const PatternMatch&)>& replace);

template <class View, class Replace> Program rewrite_matches(Program p, const OpTable& table, Replace replace) {
  const Pattern<View> pattern = View::pattern();
  return rewrite_matches(std::move(p), table, pattern.terms, [&](Builder& b, const PatternMatch& match) {
    return std::optional<ValueId>(replace(b, pattern.view(match)));
  });
}

// A node of an op that no table has: a backend's own kernel. `op` must live as long as the program.
Values own_node(Builder&, const OpDef& op, Values operands, Attributes = {});

}  // namespace pycandle
