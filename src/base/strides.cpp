#include "base/strides.h"

namespace pycandle {

Sizes row_major_strides(const Sizes& shape) {
  Sizes strides(shape.size());
  int64_t step = 1;
  for (size_t a = shape.size(); a-- > 0;) {
    strides[a] = step;
    step *= shape[a] > 0 ? shape[a] : 1;
  }
  return strides;
}

Sizes permuted(const Sizes& values, const std::vector<int64_t>& axes) {
  Sizes out;
  out.reserve(axes.size());
  for (const int64_t axis : axes) out.push_back(values.at(axis));
  return out;
}

}  // namespace pycandle
