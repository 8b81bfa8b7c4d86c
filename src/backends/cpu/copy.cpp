#include "backends/cpu/copy.h"

#include <algorithm>

#include "backends/cpu/kernel_step.h"

namespace pycandle::cpu {

StridedCopy strided_copy(const View& from, const View& to) {
  // Axes that need no loop of their own joined: few views need more loops than the kernel has.
  Sizes sizes, x, out;
  for (size_t a = 0; a < from.sizes.size(); ++a) {
    if (from.sizes[a] == 1) continue;
    const bool joins = !sizes.empty() && x.back() == from.strides[a] * from.sizes[a] &&
                       out.back() == to.strides[a] * from.sizes[a];
    if (joins) {
      sizes.back() *= from.sizes[a];
      x.back() = from.strides[a];
      out.back() = to.strides[a];
    } else {
      sizes.push_back(from.sizes[a]);
      x.push_back(from.strides[a]);
      out.push_back(to.strides[a]);
    }
  }
  const auto around = static_cast<std::ptrdiff_t>(sizes.size()) - std::min<std::ptrdiff_t>(kMaxRank, std::ssize(sizes));
  StridedCopy c;
  c.outer.assign(sizes.begin(), sizes.begin() + around);
  c.from.assign(x.begin(), x.begin() + around);
  c.to.assign(out.begin(), out.begin() + around);
  c.inner.element = static_cast<int>(size_of(from.dtype));
  c.inner.rank = static_cast<int>(std::ssize(sizes) - around);
  std::copy(sizes.begin() + around, sizes.end(), c.inner.dims);
  std::copy(x.begin() + around, x.end(), c.inner.x_strides);
  std::copy(out.begin() + around, out.end(), c.inner.out_strides);
  plan_copy(c.inner);
  return c;
}

void run_copy(const StridedCopy& c, const std::byte* from, std::byte* to, int threads) {
  const Kernels& k = kernels();
  const int64_t units = k.copy_units(c.inner), rounds = element_count(c.outer);
  if (units == 0) return;
  int64_t elements = 1;
  for (int a = 0; a < c.inner.rank; ++a) elements *= c.inner.dims[a];
  const int parts = parts_for(threads, units, 4.0 * static_cast<double>(elements));
  for (int64_t round = 0; round < rounds; ++round) {
    int64_t left = round, x = 0, out = 0;
    for (size_t a = c.outer.size(); a-- > 0;) {
      x += left % c.outer[a] * c.from[a];
      out += left % c.outer[a] * c.to[a];
      left /= c.outer[a];
    }
    Copy here = c.inner;
    here.x = from + x * c.inner.element;
    here.out = to + out * c.inner.element;
    run_parts(parts, [&](int part) { k.copy(here, part_of(units, parts, part), part_of(units, parts, part + 1), nullptr); });
  }
}

}  // namespace pycandle::cpu
