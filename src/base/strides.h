// Walking strided views of dense arrays: what broadcasting, transposing, slicing and reducing are made of.
//
//   // out = a + b, where b is one row (a stride of 0 repeats)
//   for_each_offset<2>({2, 3}, {Sizes{3, 1}, Sizes{0, 1}},
//                      [&](int64_t i, const std::array<int64_t, 2>& at) { out[i] = x[at[0]] + y[at[1]]; });
#pragma once

#include <array>
#include <cstdint>

#include "base/array.h"

namespace pycandle {

Sizes row_major_strides(const Sizes& shape);  // [2, 3, 4] → [12, 4, 1]
// Each taken at the given axes: permuted(strides, {1, 0}).
Sizes permuted(const Sizes& values, const std::vector<int64_t>& axes);

// Visits every index of `shape` in row-major order: visit(position, offsets), where position counts from 0 and
// offsets[v] = start[v] + sum of index * strides[v]. The innermost axis is a plain loop.
template <size_t kViews, class Visit>
void for_each_offset(const Sizes& shape, const std::array<Sizes, kViews>& strides, Visit&& visit,
                     std::array<int64_t, kViews> start = {}) {
  const size_t rank = shape.size();
  for (const int64_t size : shape)
    if (size <= 0) return;
  std::array<int64_t, kViews> at = start;
  if (rank == 0) {
    visit(int64_t{0}, at);
    return;
  }
  const int64_t inner = shape[rank - 1];
  std::array<int64_t, kViews> step;
  for (size_t v = 0; v < kViews; ++v) step[v] = strides[v][rank - 1];
  Sizes index(rank, 0);
  std::array<int64_t, kViews> row = start;
  for (int64_t position = 0;;) {
    at = row;
    for (int64_t i = 0; i < inner; ++i) {
      visit(position++, static_cast<const std::array<int64_t, kViews>&>(at));
      for (size_t v = 0; v < kViews; ++v) at[v] += step[v];
    }
    // The odometer of the outer axes.
    size_t axis = rank - 1;
    for (;;) {
      if (axis == 0) return;
      --axis;
      for (size_t v = 0; v < kViews; ++v) row[v] += strides[v][axis];
      if (++index[axis] < shape[axis]) break;
      for (size_t v = 0; v < kViews; ++v) row[v] -= strides[v][axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

// One view: visit(position, offset).
template <class Visit> void for_each_offset(const Sizes& shape, const Sizes& strides, Visit&& visit, int64_t start = 0) {
  for_each_offset<1>(shape, std::array<Sizes, 1>{strides},
                     [&](int64_t position, const std::array<int64_t, 1>& at) { visit(position, at[0]); }, {start});
}

// An index into `shape` that counts up in row-major order, for loops that need the index itself.
//   for (IndexWalk w(shape); !w.done(); w.next()) use(w.index());
class IndexWalk {
 public:
  explicit IndexWalk(Sizes shape) : shape_(std::move(shape)), index_(shape_.size(), 0) {
    for (const int64_t size : shape_) done_ = done_ || size <= 0;
  }
  bool done() const { return done_; }
  const Sizes& index() const { return index_; }
  int64_t position() const { return position_; }
  int64_t offset(const Sizes& strides) const {
    int64_t at = 0;
    for (size_t a = 0; a < index_.size(); ++a) at += index_[a] * strides[a];
    return at;
  }
  void next() {
    ++position_;
    for (size_t a = shape_.size(); a-- > 0;) {
      if (++index_[a] < shape_[a]) return;
      index_[a] = 0;
    }
    done_ = true;
  }

 private:
  Sizes shape_, index_;
  int64_t position_ = 0;
  bool done_ = false;
};

}  // namespace pycandle
