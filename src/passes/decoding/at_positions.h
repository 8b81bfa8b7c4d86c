// What depends on positions alone, computed at the positions of the new tokens instead of read from a table: the nodes of the
// program again, with an axis for the batch, since sequences stand at different positions.
//
//   arange(length).unsqueeze(0)  [1, length]     becomes     starts.unsqueeze(1) + arange(new).unsqueeze(0)  [batch, new]
#pragma once

#include <map>
#include <optional>
#include <utility>

#include "passes/decoding/deriver.h"

namespace pycandle::decoding {

class AtPositions {
 public:
  explicit AtPositions(Deriver& d) : d(d), b(d.step_.b) {}

  // [batch, dims of v]; nothing when some op on the way is not known here.
  std::optional<ValueId> rows(ValueId v, const Need&);

 private:
  // The batch stands in place of a first axis of 1, or before the others: [1, length] → [batch, new], [length] → [batch, new].
  std::optional<ValueId> made(ValueId v, const Need&);
  std::optional<ValueId> computed(const Node&, ValueId v, const Need&);
  ValueId positions(const Node& iota);
  std::optional<ValueId> elementwise(const Node&, ValueId v, const Need&);
  std::optional<ValueId> broadcast(const Node&, ValueId v, const Need&);
  std::optional<ValueId> product(const Node&, ValueId v);
  std::optional<ValueId> joined(const Node&, ValueId v, const Need&);
  // One that is the same at all positions: with the batch.
  std::optional<ValueId> alike(ValueId v, const Need&);

  bool has_one_first(ValueId v) const;  // the batch takes its place
  Shape shape(ValueId v, const Need&) const;
  Need fresh(ValueId v) const { return d.axes_.every(v, Rows::fresh); }

  Deriver& d;
  Builder& b;
};

}  // namespace pycandle::decoding
