// How often and until when the values of a class are needed, step by step: what decides whether one gets a variable.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit {

struct Uses {
  using WrittenDims = std::function<std::vector<Dim>(NodeId)>;  // the sizes that stand in the text of a node
  Uses(const ModelTree&, const ModuleClass&, const WrittenDims&);

  std::map<ValueId, int> count;
  std::map<ValueId, size_t> last;         // the step that needs it last, as far as is written so far
  std::map<ValueId, size_t> stated_last;  // as the steps say it, whatever is written when
  std::map<ValueId, size_t> user;         // the step that needs it, when it is one
  std::map<int32_t, int> calls_of;        // a child
  std::set<ValueId> must_have_name;
  std::vector<Values> visible_at;         // the values that a step can see
};

}  // namespace pycandle::emit
