// A dense, row-major array in host memory: owned, or a view of a mapped file. Copying shares the memory. Several threads may
// read one array at once; writing through mutable_data() is for one thread that has it alone.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "pycandle/api.h"
#include "pycandle/dtype.h"

namespace pycandle {

using Sizes = std::vector<int64_t>;
PYCANDLE_API std::string to_string(const Sizes&);  // "[1, 3, 224]"
PYCANDLE_API int64_t element_count(const Sizes&);  // throws bad_input on overflow or a negative size

class PYCANDLE_API Array {
 public:
  Array() = default;                                  // f32[0]
  Array(DType, Sizes);                                // zeros
  // Over memory that `owner` keeps alive; nothing is copied. The memory is not written through the array.
  Array(DType, Sizes, const void* data, std::shared_ptr<const void> owner);

  DType dtype() const { return dtype_; }
  const Sizes& shape() const { return shape_; }
  int64_t rank() const { return static_cast<int64_t>(shape_.size()); }
  int64_t size() const { return size_; }              // elements
  size_t bytes() const { return static_cast<size_t>(size_) * size_of(dtype_); }
  const void* data() const { return data_; }
  void* mutable_data();                               // only for arrays made by Array(DType, Sizes)

  // The elements, in the dtype's own type: float for f32, int64_t for i64, uint8_t or bool for bool, std::complex<float> for
  // c64, uint16_t (the bits) for f16 and bf16. Another type is a usage error; char and std::byte read the bytes of any dtype.
  template <class T> const T* as() const {
    check_type(holds<T>(dtype_), sizeof(T));
    return static_cast<const T*>(data_);
  }
  template <class T> T* mutable_as() {
    check_type(holds<T>(dtype_), sizeof(T));
    return static_cast<T*>(mutable_data());
  }

  Array reshaped(Sizes) const;                        // the same memory; the count must agree
  bool same_bytes(const Array&) const;                // dtype, shape and every bit

  static Array scalar(DType, const Scalar&);

 private:
  template <class T> static constexpr bool holds(DType d) {
    using std::is_same_v;
    if constexpr (is_same_v<T, char> || is_same_v<T, std::byte>) return true;
    switch (d) {
      case DType::f64: return is_same_v<T, double>;
      case DType::f32: return is_same_v<T, float>;
      case DType::f16:
      case DType::bf16: return is_same_v<T, uint16_t>;
      case DType::i64: return std::is_integral_v<T> && std::is_signed_v<T> && sizeof(T) == 8;
      case DType::i32: return is_same_v<T, int32_t>;
      case DType::i16: return is_same_v<T, int16_t>;
      case DType::i8: return is_same_v<T, int8_t>;
      case DType::u8: return is_same_v<T, uint8_t>;
      case DType::boolean: return is_same_v<T, bool> || is_same_v<T, uint8_t>;
      case DType::c64: return is_same_v<T, std::complex<float>>;
      case DType::c128: return is_same_v<T, std::complex<double>>;
    }
    return false;
  }
  void check_type(bool fits, size_t bytes) const {
    if (!fits) wrong_type(bytes);
  }
  [[noreturn]] void wrong_type(size_t bytes) const;

  DType dtype_ = DType::f32;
  Sizes shape_{0};
  int64_t size_ = 0;
  std::shared_ptr<const void> owner_;
  const void* data_ = nullptr;
  bool writable_ = false;
};

// Whole-array conversions to and from the types that evaluators compute in. load_double of an integral array gives its
// values; store_* rounds once to nearest even (floats) or wraps (integers, as torch); bool is value != 0.
PYCANDLE_API std::vector<double> load_double(const Array&);
PYCANDLE_API std::vector<int64_t> load_int(const Array&);             // truncates floats toward zero, as torch's cast
PYCANDLE_API std::vector<std::complex<double>> load_complex(const Array&);
PYCANDLE_API Array store(DType, Sizes, const std::vector<double>&);
PYCANDLE_API Array store(DType, Sizes, const std::vector<int64_t>&);
PYCANDLE_API Array store(DType, Sizes, const std::vector<std::complex<double>>&);
PYCANDLE_API Array cast(const Array&, DType);

}  // namespace pycandle
