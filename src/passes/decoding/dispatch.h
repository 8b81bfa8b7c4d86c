// Mixture-of-experts dispatch: rows are sorted by expert, go through the matrices of their groups, and are put back. Between
// sorting and putting back positions stand in another order, but each row depends on its own token alone:
//
//   sorted, order = sort(experts)             experts: [rows], one for each row
//   x             = gather_nd(tokens, order)
//   ends          = cumsum(histc(sorted))     where the rows of each expert end
//   y             = grouped_matmul(x, weight, ends)
//   result        = gather_nd(y, inverse of order)
#pragma once

#include <optional>
#include <set>

#include "ir/op_def.h"

namespace pycandle::decoding {

struct Dispatch {
  ValueId experts = kNoValue;   // what is sorted; the result has its rows
  std::set<ValueId> entries;    // with rows in the order of tokens: where the part that is sorted begins
};

// Is this the node that puts the rows back, and is all before it, up to the entries, a matter of each row alone?
std::optional<Dispatch> find_dispatch(const Graph&, const Node&);

}  // namespace pycandle::decoding
