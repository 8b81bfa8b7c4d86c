// Where the elements of a value lie: a buffer, and the strides to walk it with. Movement ops only change the view.
#pragma once

#include <optional>

#include "base/array.h"

namespace pycandle::cpu {

using BufferId = int32_t;
inline constexpr BufferId kNoBuffer = -1;

struct View {
  BufferId buffer = kNoBuffer;
  DType dtype = DType::f32;
  int64_t offset = 0;    // in elements, as the strides
  Sizes sizes, strides;

  int64_t count() const;
  int64_t rank() const { return static_cast<int64_t>(sizes.size()); }
  bool is_dense() const;  // row-major without gaps
  double bytes() const;   // of the elements that differ: what is broadcast counts once
  int64_t offset_bytes() const { return offset * static_cast<int64_t>(size_of(dtype)); }
};

View dense_view(BufferId, DType, Sizes);
View transposed(View, const std::vector<int64_t>& permutation);
View broadcasted(const View&, Sizes, const std::vector<int64_t>& axes);
View sliced(View, const Sizes& starts, const Sizes& stops, const std::vector<int64_t>& steps);
View reversed(View, const std::vector<int64_t>& axes);
// The same elements in row-major order under other sizes; nothing when no strides say that.
std::optional<View> reshaped(const View&, const Sizes&);
// Do both show the same elements at the same places?
bool same_places(const View&, const View&);

}  // namespace pycandle::cpu
