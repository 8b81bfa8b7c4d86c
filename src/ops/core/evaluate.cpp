#include "ops/core/evaluate.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "base/file_dtypes.h"
#include "base/half.h"
#include "base/narrow_floats.h"

namespace pycandle {

namespace {

// How the elements of a dtype are stored, what they are computed in, and the way between.
struct F16 {
  uint16_t bits;
};
struct BF16 {
  uint16_t bits;
};
struct Bool {
  uint8_t bits;
};
template <class Format> struct Narrow {
  uint8_t bits;
};
template <class T, int kBits> struct NarrowInteger {
  T value;
};

inline double decode(double v) { return v; }
inline double decode(float v) { return v; }
inline double decode(F16 v) { return detail::f16_to_float(v.bits); }
inline double decode(BF16 v) { return detail::bf16_to_float(v.bits); }
template <std::integral T> inline int64_t decode(T v) { return static_cast<int64_t>(v); }
inline int64_t decode(Bool v) { return v.bits != 0; }
template <class Format> inline double decode(Narrow<Format> v) { return Format::decode(v.bits); }
template <class T, int kBits> inline int64_t decode(NarrowInteger<T, kBits> v) {
  return detail::wrapped_to_bits<kBits, std::is_signed_v<T>>(v.value);
}
template <class T> inline Complex decode(std::complex<T> v) { return {v.real(), v.imag()}; }

// Toward zero. What does not fit an int64 gives its least value, as the instruction behind torch's cast does.
inline int64_t truncated(double v) {
  return v >= -0x1p63 && v < 0x1p63 ? static_cast<int64_t>(v) : std::numeric_limits<int64_t>::min();
}
template <class C, class From> inline C as_number(From v) {
  if constexpr (std::is_same_v<C, From>)
    return v;
  else if constexpr (std::is_same_v<From, Complex>)
    return as_number<C>(v.real());
  else if constexpr (std::is_same_v<C, int64_t>)
    return truncated(v);
  else
    return C(static_cast<double>(v));
}

template <class T> struct Encode {
  static T from(double v)
    requires std::floating_point<T>
  {
    return static_cast<T>(v);
  }
  static T from(int64_t v) { return static_cast<T>(v); }
  static T from(double v)
    requires std::integral<T>
  {
    return static_cast<T>(truncated(v));
  }
};
template <> struct Encode<F16> {
  static F16 from(double v) { return {detail::double_to_f16(v)}; }
};
template <> struct Encode<BF16> {
  static BF16 from(double v) { return {detail::double_to_bf16(v)}; }
};
template <> struct Encode<Bool> {
  static Bool from(double v) { return {v != 0}; }
  static Bool from(int64_t v) { return {v != 0}; }
};
template <class Format> struct Encode<Narrow<Format>> {
  static Narrow<Format> from(double v) { return {Format::encode(v)}; }
  static Narrow<Format> from(int64_t v) { return {Format::encode(static_cast<double>(v))}; }
};
template <class T, int kBits> struct Encode<NarrowInteger<T, kBits>> {
  static NarrowInteger<T, kBits> from(int64_t v) {
    return {static_cast<T>(detail::wrapped_to_bits<kBits, std::is_signed_v<T>>(v))};
  }
  static NarrowInteger<T, kBits> from(double v) { return from(truncated(v)); }
};
template <class T> struct Encode<std::complex<T>> {
  static std::complex<T> from(Complex v) { return {static_cast<T>(v.real()), static_cast<T>(v.imag())}; }
  static std::complex<T> from(double v) { return {static_cast<T>(v), T{0}}; }
  static std::complex<T> from(int64_t v) { return {static_cast<T>(v), T{0}}; }
};
template <class T, class C> inline T encode(C v) {
  if constexpr (std::is_same_v<C, Complex> && !requires { Encode<T>::from(v).real(); }) {
    if constexpr (std::is_same_v<T, Bool>)
      return Encode<T>::from(v != Complex{} ? 1.0 : 0.0);
    else
      return Encode<T>::from(v.real());
  } else if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
    return Encode<T>::from(static_cast<double>(v));
  } else {
    return Encode<T>::from(v);
  }
}

template <class F> void with_storage(DType d, F&& f) {
  switch (d) {
    case DType::f64: return f(double{});
    case DType::f32: return f(float{});
    case DType::f16: return f(F16{});
    case DType::bf16: return f(BF16{});
    case DType::i64: return f(int64_t{});
    case DType::i32: return f(int32_t{});
    case DType::i16: return f(int16_t{});
    case DType::i8: return f(int8_t{});
    case DType::u8: return f(uint8_t{});
    case DType::boolean: return f(Bool{});
    case DType::c64: return f(std::complex<float>{});
    case DType::c128: return f(std::complex<double>{});
  }
  if (d == file_dtype::u16) return f(uint16_t{});
  if (d == file_dtype::u32) return f(uint32_t{});
  if (d == file_dtype::u64) return f(uint64_t{});
  if (d == file_dtype::f8e4m3) return f(Narrow<detail::F8E4M3>{});
  if (d == file_dtype::f8e4m3fnuz) return f(Narrow<detail::F8E4M3Fnuz>{});
  if (d == file_dtype::f8e5m2) return f(Narrow<detail::F8E5M2>{});
  if (d == file_dtype::f8e5m2fnuz) return f(Narrow<detail::F8E5M2Fnuz>{});
  if (d == file_dtype::f8e8m0) return f(Narrow<detail::ExponentFloat>{});
  if (d == file_dtype::f4e2m1) return f(Narrow<detail::F4E2M1>{});
  if (d == file_dtype::i4) return f(NarrowInteger<int8_t, 4>{});
  if (d == file_dtype::u4) return f(NarrowInteger<uint8_t, 4>{});
  if (d == file_dtype::i2) return f(NarrowInteger<int8_t, 2>{});
  if (d == file_dtype::u2) return f(NarrowInteger<uint8_t, 2>{});
}

}  // namespace

Domain domain_of(DType d) { return is_floating(d) ? Domain::real : is_complex(d) ? Domain::complex : Domain::integer; }

template <class C> void load_chunk(const Array& x, int64_t first, int64_t count, C* out, int64_t stride) {
  with_storage(x.dtype(), [&](auto element) {
    const auto* in = stored<decltype(element)>(x) + first;
    if (stride == 1) {
      for (int64_t i = 0; i < count; ++i) out[i] = as_number<C>(decode(in[i]));
    } else {
      for (int64_t i = 0; i < count; ++i) out[i] = as_number<C>(decode(in[i * stride]));
    }
  });
}

template <class C> void store_chunk(Array& x, int64_t first, int64_t count, const C* in, int64_t stride) {
  with_storage(x.dtype(), [&](auto element) {
    using T = decltype(element);
    T* out = mutable_stored<T>(x) + first;
    if (stride == 1) {
      for (int64_t i = 0; i < count; ++i) out[i] = encode<T>(in[i]);
    } else {
      for (int64_t i = 0; i < count; ++i) out[i * stride] = encode<T>(in[i]);
    }
  });
}

template void load_chunk(const Array&, int64_t, int64_t, double*, int64_t);
template void load_chunk(const Array&, int64_t, int64_t, int64_t*, int64_t);
template void load_chunk(const Array&, int64_t, int64_t, Complex*, int64_t);
template void store_chunk(Array&, int64_t, int64_t, const double*, int64_t);
template void store_chunk(Array&, int64_t, int64_t, const int64_t*, int64_t);
template void store_chunk(Array&, int64_t, int64_t, const Complex*, int64_t);

void sizes_differ(const Evaluation& ev, const Array& a, const Array& b) {
  throw Error(ErrorCode::bad_input, "the operands of " + ev.node().op->name + " have different sizes")
      .expected(to_string(a.shape()))
      .found(to_string(b.shape()))
      .op(ev.node().op->name);
}

namespace {

// The axes of a copy, fewest first: axes of one element are dropped, neighbours that are one stretch of memory merged.
struct Walk {
  Sizes shape, from, to;
};
Walk merged(const Sizes& shape, const Sizes& from, const Sizes& to) {
  Walk walk;
  for (size_t a = 0; a < shape.size(); ++a) {
    if (shape[a] == 1) continue;
    if (!walk.shape.empty() && walk.from.back() == from[a] * shape[a] && walk.to.back() == to[a] * shape[a]) {
      walk.shape.back() *= shape[a];
      walk.from.back() = from[a];
      walk.to.back() = to[a];
    } else {
      walk.shape.push_back(shape[a]);
      walk.from.push_back(from[a]);
      walk.to.push_back(to[a]);
    }
  }
  return walk;
}

template <class T> void copy_rows(const T* from, T* to, const Walk& walk) {
  const size_t outer_rank = walk.shape.size() - 1;
  const Sizes outer(walk.shape.begin(), walk.shape.end() - 1);
  const int64_t inner = walk.shape.back(), from_step = walk.from.back(), to_step = walk.to.back();
  const int64_t grain = std::max<int64_t>(1, 16384 / inner);
  parallel_for(element_count(outer), grain, [&](int64_t begin, int64_t end) {
    Sizes index(outer_rank);
    int64_t from_row = 0, to_row = 0, rest = begin;
    for (size_t a = outer_rank; a-- > 0; rest /= outer[a]) {
      index[a] = rest % outer[a];
      from_row += index[a] * walk.from[a];
      to_row += index[a] * walk.to[a];
    }
    for (int64_t row = begin; row < end; ++row) {
      const T* in = from + from_row;
      T* out = to + to_row;
      if (from_step == 1 && to_step == 1) {
        std::memcpy(out, in, static_cast<size_t>(inner) * sizeof(T));
      } else {
        for (int64_t i = 0; i < inner; ++i) out[i * to_step] = in[i * from_step];
      }
      for (size_t a = outer_rank; a-- > 0;) {
        from_row += walk.from[a];
        to_row += walk.to[a];
        if (++index[a] < outer[a]) break;
        index[a] = 0;
        from_row -= walk.from[a] * outer[a];
        to_row -= walk.to[a] * outer[a];
      }
    }
  });
}

}  // namespace

void copy_strided(const Array& from, int64_t from_offset, const Sizes& from_strides, Array& to, int64_t to_offset,
                  const Sizes& to_strides, const Sizes& shape) {
  require(from.dtype() == to.dtype(), "bytes are copied between arrays of different dtypes");
  if (element_count(shape) == 0) return;
  Walk walk = merged(shape, from_strides, to_strides);
  if (walk.shape.empty()) walk = {{1}, {1}, {1}};
  with_element(from.dtype(), [&](auto element) {
    using T = decltype(element);
    copy_rows(stored<T>(from) + from_offset, mutable_stored<T>(to) + to_offset, walk);
  });
}

Array strided_copy(const Array& x, Sizes shape, const Sizes& strides, int64_t offset) {
  Array out(x.dtype(), std::move(shape));
  copy_strided(x, offset, strides, out, 0, row_major_strides(out.shape()), out.shape());
  return out;
}

Array transposed(const Array& x, const Ints& permutation) {
  return strided_copy(x, permuted(x.shape(), permutation), permuted(row_major_strides(x.shape()), permutation));
}

namespace {
Array moved_axis(const Array& x, int64_t from, int64_t to) {
  if (from == to) return x;
  Ints axes;
  for (int64_t a = 0; a < x.rank(); ++a) {
    if (a != from) axes.push_back(a);
  }
  axes.insert(axes.begin() + to, from);
  return transposed(x, axes);
}
}  // namespace

Array axis_to_end(const Array& x, int64_t axis) { return moved_axis(x, axis, x.rank() - 1); }
Array axis_from_end(const Array& rows, int64_t axis) { return moved_axis(rows, rows.rank() - 1, axis); }

}  // namespace pycandle
