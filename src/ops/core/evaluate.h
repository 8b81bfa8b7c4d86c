// What evaluators are made of. Numbers are converted at load to double, int64 or complex double and rounded once at
// store, in chunks that stay in cache; data that only moves is copied as bytes. Look at an array's own dtype for loading
// and at Evaluation::out_dtype() for storing, never at the logical type: that is all there is to the f64 mode.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <functional>
#include <type_traits>
#include <vector>

#include "base/strides.h"
#include "base/threads.h"
#include "ir/evaluation.h"

namespace pycandle {

using Complex = std::complex<double>;

// ---- numbers

// What the elements of a dtype are computed in.
enum class Domain { real, integer, complex };  // integer: bool too
Domain domain_of(DType);

// Calls f with a value of the domain's type: double, int64_t or Complex.
template <class F> decltype(auto) in_domain(DType dtype, F&& f) {
  switch (domain_of(dtype)) {
    case Domain::real: return f(double{});
    case Domain::integer: return f(int64_t{});
    default: return f(Complex{});
  }
}

// C is double, int64_t or Complex. Elements first, first + stride, …
template <class C> void load_chunk(const Array&, int64_t first, int64_t count, C* out, int64_t stride = 1);
template <class C> void store_chunk(Array&, int64_t first, int64_t count, const C* in, int64_t stride = 1);

template <class C> std::vector<C> load_all(const Array& x) {
  std::vector<C> out(static_cast<size_t>(x.size()));
  constexpr int64_t kPart = 1 << 16;
  parallel_for((x.size() + kPart - 1) / kPart, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      load_chunk(x, part * kPart, std::min(kPart, x.size() - part * kPart), out.data() + part * kPart);
    }
  });
  return out;
}
template <class C> Array store_all(DType dtype, Sizes shape, const std::vector<C>& values) {
  Array out(dtype, std::move(shape));
  store_chunk(out, 0, out.size(), values.data());
  return out;
}

inline constexpr int64_t kChunk = 1024;
// f(first, count) for consecutive chunks of at most kChunk of `total` elements, on several threads when that pays.
template <class F> void for_chunks(int64_t total, F&& f) {
  parallel_for((total + kChunk - 1) / kChunk, 16, [&](int64_t begin, int64_t end) {
    for (int64_t chunk = begin; chunk < end; ++chunk) f(chunk * kChunk, std::min(kChunk, total - chunk * kChunk));
  });
}

[[noreturn]] void sizes_differ(const Evaluation&, const Array&, const Array&);
inline void require_same_sizes(const Evaluation& ev, const Array& a, const Array& b) {
  if (a.shape() != b.shape()) sizes_differ(ev, a, b);
}

// f over corresponding elements of the arrays, loaded as C; f's result decides what is stored (a bool counts as int64).
template <class C, class F, std::same_as<Array>... Arrays>
Array map_as(const Evaluation& ev, F&& f, const Array& x, const Arrays&... more) {
  using Given = std::invoke_result_t<F, C, std::conditional_t<true, C, Arrays>...>;
  using Result = std::conditional_t<std::is_same_v<Given, bool>, int64_t, Given>;
  (require_same_sizes(ev, x, more), ...);
  Array out(ev.out_dtype(), x.shape());
  const std::array<const Array*, 1 + sizeof...(more)> arrays{&x, &more...};
  for_chunks(out.size(), [&](int64_t first, int64_t count) {
    std::array<std::array<C, kChunk>, arrays.size()> in;
    std::array<Result, kChunk> result;
    for (size_t a = 0; a < arrays.size(); ++a) load_chunk(*arrays[a], first, count, in[a].data());
    [&]<size_t... a>(std::index_sequence<a...>) {
      for (int64_t i = 0; i < count; ++i) result[i] = f(in[a][i]...);
    }(std::make_index_sequence<1 + sizeof...(more)>());
    store_chunk(out, first, count, result.data());
  });
  return out;
}

// The same, in the domain of x: f takes double, int64_t and Complex.
template <class F, std::same_as<Array>... Arrays> Array map(const Evaluation& ev, F&& f, const Array& x, const Arrays&... more) {
  return in_domain(x.dtype(), [&](auto zero) { return map_as<decltype(zero)>(ev, f, x, more...); });
}

// Wrapping int64 arithmetic, without undefined behaviour.
inline int64_t wrapping(uint64_t bits) { return static_cast<int64_t>(bits); }
template <class T> T sum_of(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return wrapping(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  else
    return a + b;
}
template <class T> T difference_of(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return wrapping(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  else
    return a - b;
}
template <class T> T product_of(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>) return wrapping(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  // The plain formula, as torch: std::complex would look for infinities behind every NaN.
  else if constexpr (std::is_same_v<T, Complex>)
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
  else
    return a * b;
}
template <class T> bool is_nan(T x) {
  if constexpr (std::is_same_v<T, double>)
    return x != x;
  else if constexpr (std::is_same_v<T, Complex>)
    return x.real() != x.real() || x.imag() != x.imag();
  else
    return false;
}

// ---- data movement: bytes, exact for every dtype

// Calls f with a value of an unsigned type of the element's size, to copy elements as bytes.
template <class F> void with_element(DType dtype, F&& f) {
  switch (size_of(dtype)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    case 8: return f(uint64_t{});
    default: return f(std::array<uint64_t, 2>{});
  }
}
// The elements as they are stored, whatever the dtype; Array::as checks it.
template <class T> const T* stored(const Array& a) { return static_cast<const T*>(a.data()); }
template <class T> T* mutable_stored(Array& a) { return static_cast<T*>(a.mutable_data()); }
// Copies a block of `shape` elements between two arrays that are walked with their own strides (in elements).
void copy_strided(const Array& from, int64_t from_offset, const Sizes& from_strides, Array& to, int64_t to_offset,
                  const Sizes& to_strides, const Sizes& shape);
// The array of `shape` whose elements are x walked with `strides` from `offset`.
Array strided_copy(const Array& x, Sizes shape, const Sizes& strides, int64_t offset = 0);
Array transposed(const Array& x, const Ints& permutation);

// ---- ops along one axis: its lanes laid out as rows
Array axis_to_end(const Array& x, int64_t axis);
Array axis_from_end(const Array& rows, int64_t axis);  // the reverse
inline int64_t count_before(const Sizes& shape, int64_t axis) {
  return element_count(Sizes(shape.begin(), shape.begin() + axis));
}
inline int64_t count_after(const Sizes& shape, int64_t axis) {
  return element_count(Sizes(shape.begin() + axis + 1, shape.end()));
}

}  // namespace pycandle
