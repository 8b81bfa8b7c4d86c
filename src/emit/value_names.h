// What a value is called in forward(): by Python where it said so, else after what it is for.
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit {

class ValueNames {
 public:
  ValueNames(const ModelTree& tree, const ModuleClass& made);

  std::string assigned(ValueId) const;                     // the name that Python assigned it to; empty when there is none
  std::vector<std::string> candidates(ValueId) const;      // other names for it, the best first
  std::string of(ValueId) const;                           // the best that there is
  std::string argument(ValueId) const;  // what Python calls it where it is passed to a module: self.k_proj(states)
  // Does one Python statement make the value and the step that uses it?
  bool same_statement(ValueId, size_t step, const std::vector<Step>&) const;
  std::string assigned_by(size_t step, const std::vector<Step>&) const;

 private:
  const Node* producer(ValueId) const;
  std::string assigned_call(ValueId) const;
  std::string purpose(ValueId, int depth) const;
  bool speaks_for_class(const Node&) const;

  const ModelTree* tree_;
  const ModuleClass* class_;
  bool is_of_torch_;  // then the places of its nodes are where it is called
};

}  // namespace pycandle::emit
