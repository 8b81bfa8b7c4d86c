// Brings a copy into the form that the kernel is quick for: dims of size 1 gone, neighbours joined, the dim in which out
// is contiguous last, and, if x is contiguous in another, that one before it (a batch of 2-d transposes).
#include <algorithm>
#include <cstdlib>

#include "backends/cpu/kernels/kernels.h"

namespace pycandle::cpu {

namespace {

struct CopyDim {
  int64_t size, x, out;
};

}  // namespace

void plan_copy(Copy& copy) {
  CopyDim dims[kMaxRank];
  int rank = 0;
  for (int i = 0; i < copy.rank; ++i)
    if (copy.dims[i] != 1) dims[rank++] = {copy.dims[i], copy.x_strides[i], copy.out_strides[i]};
  std::stable_sort(dims, dims + rank, [](const CopyDim& a, const CopyDim& b) { return std::abs(a.out) > std::abs(b.out); });
  int joined = 0;  // dims[0, joined) are done; the last of them may still grow
  for (int i = 0; i < rank; ++i) {
    CopyDim* last = joined > 0 ? &dims[joined - 1] : nullptr;
    if (last != nullptr && last->x == dims[i].x * dims[i].size && last->out == dims[i].out * dims[i].size) {
      *last = {last->size * dims[i].size, dims[i].x, dims[i].out};
    } else {
      dims[joined++] = dims[i];
    }
  }
  if (joined > 2 && dims[joined - 1].x != 1) {
    CopyDim* contiguous = std::find_if(dims, dims + joined - 1, [](const CopyDim& d) { return d.x == 1; });
    if (contiguous != dims + joined - 1) std::rotate(contiguous, contiguous + 1, dims + joined - 1);
  }
  copy.rank = joined;
  for (int i = 0; i < joined; ++i) {
    copy.dims[i] = dims[i].size;
    copy.x_strides[i] = dims[i].x;
    copy.out_strides[i] = dims[i].out;
  }
}

}  // namespace pycandle::cpu
