// Nodes as people write them, whatever the language: a reshape that is a flatten, a slice of one axis, an element of an axis.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit {

const Attribute& attribute_of(const Node&, std::string_view name);

// The only axis on which the slice takes less than everything; -1 when there are several.
int64_t sliced_axis(const Graph&, const Node& slice);
// reshape of a slice of one is an element of that axis: the slice is written with it, not on its own.
bool is_select(const Graph&, const Node& reshape);
// Do the axes of what is broadcast stand at the end of the result, `more` before them?
bool is_aligned(const Node& broadcast, size_t more);

// A reshape without sizes.
struct PlainReshape {
  enum class Kind { unsqueeze, squeeze, flatten_all, flatten_from, flatten } kind;
  size_t axis = 0, last = 0;
};
std::optional<PlainReshape> plain_reshape(const Graph&, const ModuleClass&, NodeId);

// The sizes that stand in the text of a node; x.flatten(1) says none.
std::vector<Dim> written_dims(const Graph&, const ModuleClass&, NodeId, const std::function<bool(ValueId)>& is_used_once);

}  // namespace pycandle::emit
