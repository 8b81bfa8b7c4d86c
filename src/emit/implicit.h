// What source code leaves unsaid: the casts and broadcasts that the front end's operators put back, and numbers that
// are written as numbers.
//
//   %2 = constant {value = 1, dtype = f32};  %3 = broadcast(%2);  %4 = add(%1, %3)        is written   x + 1
#pragma once

#include <vector>

#include "ops/core/promotion.h"

namespace pycandle::emit {

class Implicit {
 public:
  Implicit(const Program&, const OpTable&);

  // What stands in the source for operand i of a node: a value, a number, or a size.
  const Operand& operand(NodeId node, size_t i) const { return operands_[node][i]; }
  size_t operand_count(NodeId node) const { return operands_[node].size(); }
  // Nobody writes this node: all who need it write what is behind it.
  bool unwritten(NodeId node) const { return unwritten_[node]; }

 private:
  std::vector<std::vector<Operand>> operands_;
  PerNode<bool> unwritten_;
};

}  // namespace pycandle::emit
