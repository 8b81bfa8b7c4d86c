#include "base/strides.h"

#include "base/error.h"

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

Sizes broadcast_strides(const Sizes& from, const Sizes& to) {
  require(from.size() <= to.size(), "an array is broadcast to fewer axes than it has");
  const Sizes own = row_major_strides(from);
  Sizes strides(to.size(), 0);
  const size_t missing = to.size() - from.size();
  for (size_t a = 0; a < from.size(); ++a) {
    if (from[a] != to[missing + a] && from[a] != 1)
      internal_error("an array of shape " + to_string(from) + " does not broadcast to " + to_string(to));
    strides[missing + a] = from[a] == 1 ? 0 : own[a];
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
