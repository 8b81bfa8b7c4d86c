#include "backends/cpu/view.h"

#include <algorithm>
#include <utility>

#include "base/strides.h"

namespace pycandle::cpu {

int64_t View::count() const {
  int64_t n = 1;
  for (const int64_t size : sizes) n *= size;
  return n;
}

double View::bytes() const {
  auto bytes = static_cast<double>(size_of(dtype));
  for (size_t a = 0; a < sizes.size(); ++a) bytes *= strides[a] == 0 ? 1.0 : static_cast<double>(sizes[a]);
  return bytes;
}

bool View::is_dense() const {
  if (count() == 0) return true;
  int64_t expected = 1;
  for (size_t a = sizes.size(); a-- > 0;) {
    if (sizes[a] != 1 && strides[a] != expected) return false;
    expected *= sizes[a];
  }
  return true;
}

View dense_view(BufferId buffer, DType dtype, Sizes sizes) {
  View v{buffer, dtype, 0, std::move(sizes), {}};
  v.strides = row_major_strides(v.sizes);
  return v;
}

View transposed(View v, const std::vector<int64_t>& permutation) {
  v.sizes = permuted(v.sizes, permutation);
  v.strides = permuted(v.strides, permutation);
  return v;
}

View broadcasted(const View& v, Sizes sizes, const std::vector<int64_t>& axes) {
  View wide{v.buffer, v.dtype, v.offset, std::move(sizes), {}};
  wide.strides.assign(wide.sizes.size(), 0);
  for (size_t a = 0; a < axes.size(); ++a) {
    const auto to = static_cast<size_t>(axes[a]);
    if (v.sizes[a] == wide.sizes[to]) wide.strides[to] = v.strides[a];
  }
  return wide;
}

View sliced(View v, const Sizes& starts, const Sizes& stops, const std::vector<int64_t>& steps) {
  for (size_t a = 0; a < v.sizes.size(); ++a) {
    v.offset += starts[a] * v.strides[a];
    v.sizes[a] = (stops[a] - starts[a] + steps[a] - 1) / steps[a];
    v.strides[a] *= steps[a];
  }
  return v;
}

View reversed(View v, const std::vector<int64_t>& axes) {
  for (const int64_t axis : axes) {
    const auto a = static_cast<size_t>(axis);
    v.offset += std::max<int64_t>(v.sizes[a] - 1, 0) * v.strides[a];
    v.strides[a] = -v.strides[a];
  }
  return v;
}

std::optional<View> reshaped(const View& v, const Sizes& sizes) {
  View out{v.buffer, v.dtype, v.offset, sizes, {}};
  if (v.count() == 0 || v.is_dense()) {
    out.strides = row_major_strides(sizes);
    return out;
  }
  // Runs of axes of both shapes that hold the same number of elements, from the front: within a run the old axes must
  // be walked by one stride.
  Sizes from, from_strides;  // without axes of one element, and neighbours that one stride walks joined
  for (size_t a = 0; a < v.sizes.size(); ++a) {
    if (v.sizes[a] == 1) continue;
    if (!from.empty() && from_strides.back() == v.strides[a] * v.sizes[a]) {
      from.back() *= v.sizes[a];
      from_strides.back() = v.strides[a];
    } else {
      from.push_back(v.sizes[a]);
      from_strides.push_back(v.strides[a]);
    }
  }
  out.strides.assign(sizes.size(), 0);
  size_t to = 0;
  for (size_t f = 0; f < from.size(); ++f) {
    int64_t left = from[f];
    for (; to < sizes.size() && (left > 1 || sizes[to] == 1); ++to) {
      if (sizes[to] == 0 || left % sizes[to] != 0) return std::nullopt;
      left /= sizes[to];
      out.strides[to] = from_strides[f] * left;
    }
    if (left != 1) return std::nullopt;
  }
  return out;
}

bool same_places(const View& a, const View& b) {
  if (a.buffer != b.buffer || a.offset != b.offset || a.sizes != b.sizes) return false;
  for (size_t i = 0; i < a.sizes.size(); ++i) {
    if (a.sizes[i] != 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

}  // namespace pycandle::cpu
