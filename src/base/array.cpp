#include "base/array.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <type_traits>

#include "base/error.h"
#include "base/file_dtypes.h"
#include "base/half.h"
#include "base/narrow_floats.h"

namespace pycandle {

namespace {

using Complex = std::complex<double>;

// Truncation with the results of x86's instructions where the value does not fit, which C++ leaves undefined.
template <class Int> Int truncated(double v) {
  constexpr double kLimit = -static_cast<double>(std::numeric_limits<Int>::min());
  return v >= -kLimit && v < kLimit ? static_cast<Int>(v) : std::numeric_limits<Int>::min();
}

// Converts a value that evaluators compute with into `To`: to double, to int64_t, or to a complex.
template <class To, class From> To widened(From v) {
  if constexpr (std::is_same_v<From, Complex> && std::is_same_v<To, Complex>)
    return v;
  else if constexpr (std::is_same_v<From, Complex>)
    return widened<To>(v.real());
  else if constexpr (std::is_same_v<To, Complex>)
    return Complex(static_cast<double>(v));
  else if constexpr (std::is_same_v<To, int64_t> && std::is_same_v<From, double>)
    return truncated<int64_t>(v);
  else
    return static_cast<To>(v);
}

// How each dtype is stored, and what one element is worth. Wide is the type that holds every value of it.
struct F64 {
  using Stored = double;
  using Wide = double;
  static double load(double v) { return v; }
  static double store(double v) { return v; }
  static double store(int64_t v) { return static_cast<double>(v); }
};
struct F32 {
  using Stored = float;
  using Wide = double;
  static double load(float v) { return static_cast<double>(v); }
  static float store(double v) { return static_cast<float>(v); }
  static float store(int64_t v) { return static_cast<float>(v); }
};
// An int64 as a double that rounds further as the integer itself would: what a double cannot hold is kept as a
// sticky bit.
inline double sticky_double(int64_t v) {
  const bool fits = v >= -(int64_t{1} << 53) && v <= (int64_t{1} << 53);
  constexpr int64_t kLow = 0x7ff;
  return static_cast<double>(fits ? v : (v & ~kLow) | ((v & kLow) != 0 ? kLow + 1 : 0));
}
struct F16 {
  using Stored = uint16_t;
  using Wide = double;
  static double load(uint16_t v) { return static_cast<double>(detail::f16_to_float(v)); }
  static uint16_t store(double v) { return detail::double_to_f16(v); }
  static uint16_t store(int64_t v) { return store(sticky_double(v)); }
};
struct BF16 {
  using Stored = uint16_t;
  using Wide = double;
  static double load(uint16_t v) { return static_cast<double>(detail::bf16_to_float(v)); }
  static uint16_t store(double v) { return detail::double_to_bf16(v); }
  static uint16_t store(int64_t v) { return store(sticky_double(v)); }
};
// Via: the integer that torch truncates a float to before it wraps.
template <class T, class Via> struct Integer {
  using Stored = T;
  using Wide = int64_t;
  static int64_t load(T v) { return static_cast<int64_t>(v); }
  static T store(double v) { return static_cast<T>(truncated<Via>(v)); }
  static T store(int64_t v) { return static_cast<T>(v); }
};
struct Boolean {
  using Stored = uint8_t;
  using Wide = int64_t;
  static int64_t load(uint8_t v) { return v != 0; }
  static uint8_t store(double v) { return v != 0; }  // NaN is true
  static uint8_t store(int64_t v) { return v != 0; }
  static uint8_t store(Complex v) { return v != Complex(0); }
};
template <class T> struct ComplexOf {
  using Stored = std::complex<T>;
  using Wide = Complex;
  static Complex load(Stored v) { return Complex(v); }
  static Stored store(Complex v) { return Stored(static_cast<T>(v.real()), static_cast<T>(v.imag())); }
  static Stored store(double v) { return Stored(static_cast<T>(v)); }
  static Stored store(int64_t v) { return Stored(static_cast<T>(v)); }
};

template <class Format> struct Narrow {
  using Stored = uint8_t;
  using Wide = double;
  static double load(uint8_t v) { return Format::decode(v); }
  static uint8_t store(double v) { return Format::encode(v); }
  static uint8_t store(int64_t v) { return store(sticky_double(v)); }
};
template <class T, int kBits> struct NarrowInteger {
  using Stored = T;
  using Wide = int64_t;
  static int64_t load(T v) { return detail::wrapped_to_bits<kBits, std::is_signed_v<T>>(v); }  // the other bits may be anything
  static T store(double v) { return store(truncated<int64_t>(v)); }
  static T store(int64_t v) { return static_cast<T>(detail::wrapped_to_bits<kBits, std::is_signed_v<T>>(v)); }
};
// Its integer is the one with the same bits; as a float it is what it says.
struct Unsigned64 {
  using Stored = uint64_t;
  using Wide = int64_t;
  static int64_t load(uint64_t v) { return static_cast<int64_t>(v); }
  static uint64_t store(double v) {
    return v >= 0x1p63 && v < 0x1p64 ? static_cast<uint64_t>(v) : static_cast<uint64_t>(truncated<int64_t>(v));
  }
  static uint64_t store(int64_t v) { return static_cast<uint64_t>(v); }
};

template <class Visit> decltype(auto) with_element(DType d, Visit&& visit) {
  switch (d) {
    case DType::f64: return visit(F64{});
    case DType::f32: return visit(F32{});
    case DType::f16: return visit(F16{});
    case DType::bf16: return visit(BF16{});
    case DType::i64: return visit(Integer<int64_t, int64_t>{});
    case DType::i32: return visit(Integer<int32_t, int32_t>{});
    case DType::i16: return visit(Integer<int16_t, int32_t>{});
    case DType::i8: return visit(Integer<int8_t, int32_t>{});
    case DType::u8: return visit(Integer<uint8_t, int64_t>{});
    case DType::boolean: return visit(Boolean{});
    case DType::c64: return visit(ComplexOf<float>{});
    case DType::c128: return visit(ComplexOf<double>{});
  }
  if (d == file_dtype::u16) return visit(Integer<uint16_t, int64_t>{});
  if (d == file_dtype::u32) return visit(Integer<uint32_t, int64_t>{});
  if (d == file_dtype::u64) return visit(Unsigned64{});
  if (d == file_dtype::f8e4m3) return visit(Narrow<detail::F8E4M3>{});
  if (d == file_dtype::f8e4m3fnuz) return visit(Narrow<detail::F8E4M3Fnuz>{});
  if (d == file_dtype::f8e5m2) return visit(Narrow<detail::F8E5M2>{});
  if (d == file_dtype::f8e5m2fnuz) return visit(Narrow<detail::F8E5M2Fnuz>{});
  if (d == file_dtype::f8e8m0) return visit(Narrow<detail::ExponentFloat>{});
  if (d == file_dtype::f4e2m1) return visit(Narrow<detail::F4E2M1>{});
  if (d == file_dtype::i4) return visit(NarrowInteger<int8_t, 4>{});
  if (d == file_dtype::u4) return visit(NarrowInteger<uint8_t, 4>{});
  if (d == file_dtype::i2) return visit(NarrowInteger<int8_t, 2>{});
  if (d == file_dtype::u2) return visit(NarrowInteger<uint8_t, 2>{});
  internal_error("an array has a dtype that does not exist");
}

template <class Element, class Wide> auto stored(Wide v) {
  if constexpr (std::is_same_v<Wide, Complex> &&
                !std::is_invocable_v<decltype([](auto c) -> decltype(Element::store(c)) { return Element::store(c); }),
                                     Complex>) {
    return Element::store(v.real());
  } else {
    return Element::store(v);
  }
}

// An iterator that widens while it reads, so that a vector is filled in one pass.
template <class Element, class Wide> struct Widening {
  using iterator_category = std::random_access_iterator_tag;
  using value_type = Wide;
  using difference_type = std::ptrdiff_t;
  using pointer = const Wide*;
  using reference = Wide;
  const Element::Stored* at;
  Wide operator*() const { return widened<Wide>(Element::load(*at)); }
  Widening& operator++() {
    ++at;
    return *this;
  }
  Widening operator++(int) { return Widening{at++}; }
  friend difference_type operator-(Widening a, Widening b) { return a.at - b.at; }
  friend bool operator==(Widening a, Widening b) { return a.at == b.at; }
};

template <class Wide> std::vector<Wide> load(const Array& a) {
  if constexpr (!std::is_same_v<Wide, int64_t>) {
    if (a.dtype() == file_dtype::u64)
      return {static_cast<const uint64_t*>(a.data()), static_cast<const uint64_t*>(a.data()) + a.size()};
  }
  return with_element(a.dtype(), [&](auto element) {
    using Element = decltype(element);
    const auto* from = static_cast<const Element::Stored*>(a.data());
    const auto* to = from + a.size();
    if constexpr (std::is_same_v<typename Element::Stored, Wide>)
      return std::vector<Wide>(from, to);
    else
      return std::vector<Wide>(Widening<Element, Wide>{from}, Widening<Element, Wide>{to});
  });
}

template <class Wide> void store_into(DType d, void* out, const Wide* from, int64_t count) {
  with_element(d, [&](auto element) {
    using Element = decltype(element);
    auto* to = static_cast<Element::Stored*>(out);
    for (int64_t i = 0; i < count; ++i) to[i] = stored<Element>(from[i]);
  });
}

template <class Wide> Array store_all(DType d, Sizes shape, const std::vector<Wide>& values) {
  Array out(d, std::move(shape));
  if (out.size() != static_cast<int64_t>(values.size()))
    throw Error(ErrorCode::usage, "the values do not fill the array")
        .expected(fmt::format("{} for the shape {}", out.size(), to_string(out.shape())))
        .found(fmt::format("{} values", values.size()));
  if (out.size() != 0) store_into(d, out.mutable_data(), values.data(), out.size());
  return out;
}

}  // namespace

std::string to_string(const Sizes& sizes) { return fmt::format("[{}]", fmt::join(sizes, ", ")); }

int64_t element_count(const Sizes& sizes) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : sizes) {
    if (size < 0) throw Error(ErrorCode::bad_input, "a shape has a negative size").found(to_string(sizes));
    if (size == 0) empty = true;
    // A zero does not excuse the others: strides are computed from them.
    else if (__builtin_mul_overflow(count, size, &count))
      throw Error(ErrorCode::bad_input, "a shape has too many elements").found(to_string(sizes));
  }
  return empty ? 0 : count;
}

Array::Array(DType dtype, Sizes shape) : dtype_(dtype), shape_(std::move(shape)), size_(element_count(shape_)), writable_(true) {
  constexpr size_t kAlignment = 64;
  constexpr size_t kMost = size_t{1} << 39;  // half a TiB: more than one machine holds, and a clear error instead of swapping
  size_t wanted = 0;
  if (__builtin_mul_overflow(static_cast<size_t>(size_), size_of(dtype), &wanted) || wanted > kMost)
    throw Error(ErrorCode::bad_input, "a shape has too many elements")
        .expected(fmt::format("at most {} bytes", kMost))
        .found(fmt::format("{}{}", name_of(dtype), to_string(shape_)));
  // calloc: large arrays get their zeros from the system when they are first touched.
  void* memory = std::calloc(1, wanted + kAlignment);
  if (memory == nullptr)
    throw Error(ErrorCode::bad_input, fmt::format("not enough memory for an array of {} bytes", wanted))
        .found(fmt::format("{}{}", name_of(dtype), to_string(shape_)));
  owner_ = std::shared_ptr<void>(memory, [](void* p) { std::free(p); });
  size_t space = wanted + kAlignment;
  data_ = std::align(kAlignment, wanted == 0 ? 1 : wanted, memory, space);
}

Array::Array(DType dtype, Sizes shape, const void* data, std::shared_ptr<const void> owner)
    : dtype_(dtype), shape_(std::move(shape)), size_(element_count(shape_)), owner_(std::move(owner)), data_(data) {}

void* Array::mutable_data() {
  if (!writable_ && size_ != 0) {
    throw Error(ErrorCode::usage, "memory that is only viewed is written")
        .expected("an array made by Array(dtype, shape), which owns its memory")
        .hint("copy the values into such an array");
  }
  return const_cast<void*>(data_);
}

void Array::wrong_type(size_t bytes) const {
  throw Error(ErrorCode::usage, fmt::format("an array of {} is read as another type", name_of(dtype_)))
      .expected(fmt::format("the type that {} elements have, of {} bytes each", name_of(dtype_), size_of(dtype_)))
      .found(fmt::format("a type of {} bytes, or of another kind", bytes))
      .hint("cast(array, dtype) converts it; load_double and load_int read any dtype");
}

Array Array::reshaped(Sizes shape) const {
  if (element_count(shape) != size_)
    throw Error(ErrorCode::usage, "an array is reshaped to another number of elements")
        .expected(fmt::format("{} elements, as in {}", size_, to_string(shape_)))
        .found(to_string(shape));
  Array out = *this;
  out.shape_ = std::move(shape);
  return out;
}

bool Array::same_bytes(const Array& other) const {
  return dtype_ == other.dtype_ && shape_ == other.shape_ && (size_ == 0 || std::memcmp(data_, other.data_, bytes()) == 0);
}

Array Array::scalar(DType dtype, const Scalar& value) {
  if (std::holds_alternative<std::complex<double>>(value)) return store(dtype, {}, std::vector{as_complex(value)});
  if (std::holds_alternative<double>(value)) return store(dtype, {}, std::vector{as_double(value)});
  return store(dtype, {}, std::vector{as_int(value)});
}

std::vector<double> load_double(const Array& a) { return load<double>(a); }
std::vector<int64_t> load_int(const Array& a) { return load<int64_t>(a); }
std::vector<std::complex<double>> load_complex(const Array& a) { return load<Complex>(a); }
Array store(DType d, Sizes shape, const std::vector<double>& v) { return store_all(d, std::move(shape), v); }
Array store(DType d, Sizes shape, const std::vector<int64_t>& v) { return store_all(d, std::move(shape), v); }
Array store(DType d, Sizes shape, const std::vector<Complex>& v) { return store_all(d, std::move(shape), v); }

Array cast(const Array& a, DType to) {
  if (a.dtype() == to) return a;
  if (a.dtype() == file_dtype::u64 && is_inexact(to)) return store(to, a.shape(), load_double(a));  // not every u64 is an int64
  Array out(to, a.shape());
  if (a.size() == 0) return out;
  // In blocks through the type that holds every value of the source: one loop a dtype, not one a pair of dtypes.
  with_element(a.dtype(), [&](auto element) {
    using Element = decltype(element);
    using Wide = Element::Wide;
    constexpr int64_t kBlock = 1024;
    Wide block[kBlock];
    auto* target = static_cast<std::byte*>(out.mutable_data());
    for (int64_t begin = 0; begin < a.size(); begin += kBlock) {
      const int64_t count = std::min(kBlock, a.size() - begin);
      const auto* from = static_cast<const Element::Stored*>(a.data()) + begin;
      for (int64_t i = 0; i < count; ++i) block[i] = Element::load(from[i]);
      store_into(to, target + static_cast<size_t>(begin) * size_of(to), block, count);
    }
  });
  return out;
}

}  // namespace pycandle
