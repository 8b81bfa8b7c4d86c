// Helpers for families that map torch's spellings to ops of other families.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "ir/op_def.h"
#include "ops/core/aten_call.h"

namespace pycandle {

// overloads of (self, other) that are `op` after promotion and broadcasting.
void add_binary(OpDef&, const char* op, const std::vector<std::string>& overloads);
OpDef binary_mapping(const char* op, const std::vector<std::string>& overloads);

// The start, end and step of a slice of an axis of that size, as Python reads them: 0 ≤ start ≤ stop ≤ size.
struct SliceBounds {
  Dim start, stop;
  int64_t step;
};
SliceBounds slice_bounds(AtenCall&, Dim size);
// The slice of aten.slice.Tensor when an end of it is a tensor.
ValueId slice_of_data(AtenCall&, ValueId x, int64_t axis);
// Parts one after another, with tensors among their sizes.
Values split_by_data(AtenCall&, ValueId x, int64_t axis, std::string_view sizes);
SliceBounds python_slice(const Builder&, Dim size, std::optional<Dim> start, std::optional<Dim> stop, int64_t step);

}  // namespace pycandle
