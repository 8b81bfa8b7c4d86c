#include "backends/cpu/copy.h"

#include <cstring>

#include "base/threads.h"

namespace pycandle::cpu {
namespace {

struct Sixteen {
  uint64_t low, high;
};

template <class T> void copy_row(const std::byte* from, int64_t from_step, std::byte* to, int64_t to_step, int64_t n) {
  const T* x = reinterpret_cast<const T*>(from);
  T* y = reinterpret_cast<T*>(to);
  for (int64_t i = 0; i < n; ++i) y[i * to_step] = x[i * from_step];
}

using CopyRow = void (*)(const std::byte*, int64_t, std::byte*, int64_t, int64_t);

CopyRow row_copier(size_t element) {
  switch (element) {
    case 1: return copy_row<uint8_t>;
    case 2: return copy_row<uint16_t>;
    case 4: return copy_row<uint32_t>;
    case 8: return copy_row<uint64_t>;
    default: return copy_row<Sixteen>;
  }
}

}  // namespace

CopyShape copy_shape(const View& from, const View& to) {
  CopyShape c;
  c.element = size_of(from.dtype);
  for (size_t a = 0; a < from.sizes.size(); ++a) {
    if (from.sizes[a] == 1) continue;
    const bool joins = !c.sizes.empty() && c.from.back() == from.strides[a] * from.sizes[a] &&
                       c.to.back() == to.strides[a] * from.sizes[a];
    if (joins) {
      c.sizes.back() *= from.sizes[a];
      c.from.back() = from.strides[a];
      c.to.back() = to.strides[a];
    } else {
      c.sizes.push_back(from.sizes[a]);
      c.from.push_back(from.strides[a]);
      c.to.push_back(to.strides[a]);
    }
  }
  if (c.sizes.empty()) {
    c.sizes = {1};
    c.from = c.to = {1};
  }
  return c;
}

void strided_copy(const CopyShape& c, const std::byte* from, std::byte* to, int) {
  const size_t inner = c.sizes.size() - 1;
  const int64_t n = c.sizes[inner];
  int64_t rows = 1;
  for (size_t a = 0; a < inner; ++a) rows *= c.sizes[a];
  if (n == 0 || rows == 0) return;
  const auto element = static_cast<int64_t>(c.element);
  const bool is_plain = c.from[inner] == 1 && c.to[inner] == 1;
  const CopyRow copy = row_copier(c.element);
  const int64_t grain = std::max<int64_t>(1, 32768 / std::max<int64_t>(n, 1));
  parallel_for(rows, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      int64_t left = row, x = 0, y = 0;
      for (size_t a = inner; a-- > 0;) {
        const int64_t at = left % c.sizes[a];
        left /= c.sizes[a];
        x += at * c.from[a];
        y += at * c.to[a];
      }
      if (is_plain)
        std::memcpy(to + y * element, from + x * element, static_cast<size_t>(n * element));
      else
        copy(from + x * element, c.from[inner], to + y * element, c.to[inner], n);
    }
  });
}

}  // namespace pycandle::cpu
