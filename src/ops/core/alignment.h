// Along which axes a call treats every place alike: what it computes at one place along such an axis of its results comes
// from that place of its operands alone, however many places there are. A linear layer runs along all axes of x but the
// last, a softmax along all but its own. An op's paragraph says which rule it follows: .aligned(along_all_but_axis).
#pragma once

#include <optional>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

struct Alignment {
  static constexpr int64_t kAbsent = -1;  // the operand has no such axis: all of it counts at every place
  std::vector<bool> is_free;              // per axis of the results (of all of them): is every place treated alike?
  std::vector<Ints> axes;                 // per operand, per axis of the results: the operand's axis that runs along it
};

// Nothing for an op of which this is not known; a functional can be decomposed then. Reshapes are not here: their axes
// are factors of one another.
std::optional<Alignment> alignment_of(const Call&, const Values& operands, const Shape& result);

// ---- for paragraphs

// What a rule looks at, and what it begins with.
struct AlignedCall {
  const Call& call;
  const Values& operands;
  const Shape& result;

  size_t rank() const { return result.size(); }
  int64_t axis(const char* name) const;                             // an attribute; a negative one counts from the end
  Ints last(size_t count) const;                                    // the last axes of the result
  Alignment none_free() const;                                      // and no operand has any of them
  Alignment all_free() const;                                       // and no operand has any of them
  Alignment all_but(const Ints& bound, size_t operand = 0) const;   // the operand has the axes of the result
  // The axes of operand 1, `count` of them, stand where operand 0 has `axis`, which is needed whole.
  Alignment indexed(int64_t axis, int64_t count) const;
};

std::optional<Alignment> along_all_axes(const AlignedCall&);        // every operand has the shape of the result
std::optional<Alignment> along_all_but_last(const AlignedCall&);
std::optional<Alignment> along_all_but_dim(const AlignedCall&);     // the attribute `dim`
std::optional<Alignment> along_all_but_axis(const AlignedCall&);    // the attribute `axis`
std::optional<Alignment> along_all_but_normalized(const AlignedCall&);  // the attribute `normalized_shape`
std::optional<Alignment> along_what_is_not_reduced(const AlignedCall&);  // the attributes `axes` and, where there is one, `keep`

}  // namespace pycandle
