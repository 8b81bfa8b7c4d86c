// A lazy tensor: a handle on a value of the program that is being captured, on a parameter, or (eagerly) on an array.
//
//   Tensor y = functional::softmax(x.transpose(1, 2) * 0.5, -1);
//   y.dim(0)                                     // a Dim, symbolic when the signature says so
//   x[{Slice(), 0, Slice(1, x.dim(2)), NewAxis}]
//
// Threads: a tensor of forward() belongs to the capture that made it, on its thread. Several threads may capture models, or
// compute eagerly, at once.
#pragma once

#include <array>
#include <complex>
#include <concepts>
#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "pycandle/array.h"
#include "pycandle/dim.h"
#include "pycandle/error.h"

namespace pycandle::front {
class Tensor;
class Operand;
class Number;
class Index;
class State;
struct Leaf;  // a parameter or an array: src/capture/capture.h

// Where a function on tensors is called. Each takes it last and by itself, so that nodes know their line of C++.
using Here = std::source_location;

class PYCANDLE_API Tensor {
 public:
  Tensor() = default;              // absent, as Python's None
  explicit Tensor(Array value);    // a constant
  Tensor(const State&);            // NOLINT(google-explicit-constructor): what it is now; later updates do not change it
  Tensor& operator=(const State&);
  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  Tensor& operator=(const Tensor&) = default;
  Tensor& operator=(Tensor&&) = default;
  ~Tensor() = default;

  bool defined() const { return leaf_ != nullptr || value_ >= 0; }
  DType dtype() const;
  int64_t rank() const;
  Dim dim(int64_t axis) const;     // negative axes count from the end
  Dims shape() const;
  std::string type_text() const;   // f32[batch, 3]
  Array array() const;             // its values: eagerly, or of a parameter
  // The only element of a value that is there: eagerly.
  double item() const;

  Tensor reshape(const Dims& shape, Here = Here::current()) const;  // one -1 is inferred
  Tensor view(const Dims& shape, Here here = Here::current()) const { return reshape(shape, here); }
  Tensor flatten(int64_t start = 0, int64_t end = -1, Here = Here::current()) const;
  Tensor unflatten(int64_t axis, const Dims& sizes, Here = Here::current()) const;
  Tensor permute(const Ints& axes, Here = Here::current()) const;
  Tensor transpose(int64_t a, int64_t b, Here = Here::current()) const;
  Tensor t(Here here = Here::current()) const { return rank() < 2 ? *this : transpose(0, 1, here); }
  Tensor unsqueeze(int64_t axis, Here = Here::current()) const;
  Tensor squeeze(int64_t axis, Here = Here::current()) const;
  Tensor expand(const Dims& shape, Here = Here::current()) const;   // -1 keeps a size
  Tensor slice(int64_t axis, Dim start, Dim stop, int64_t step = 1,
               Here = Here::current()) const;  // as Python reads start:stop:step
  Tensor slice_from(int64_t axis, Dim start, int64_t step = 1, Here = Here::current()) const;       // start::step
  Tensor select(int64_t axis, Dim index, Here = Here::current()) const;
  Tensor operator[](std::initializer_list<Index>) const;  // x[{0, Slice(1, 3)}]
  Tensor to(DType, Here = Here::current()) const;
  Tensor sum(const Ints& axes, bool keepdim = false, Here = Here::current()) const;
  Tensor mean(const Ints& axes, bool keepdim = false, Here = Here::current()) const;
  Tensor amax(const Ints& axes, bool keepdim = false, Here = Here::current()) const;
  Tensor amin(const Ints& axes, bool keepdim = false, Here = Here::current()) const;
  std::vector<Tensor> split(const Dims& sizes, int64_t axis, Here = Here::current()) const;
  std::vector<Tensor> chunk(int64_t count, int64_t axis, Here = Here::current()) const;  // of one size
  template <size_t count> std::array<Tensor, count> split(const Dims& sizes, int64_t axis, Here = Here::current()) const;
  template <size_t count> std::array<Tensor, count> chunk(int64_t axis, Here = Here::current()) const;

  friend PYCANDLE_API Tensor operator-(const Operand&);
  friend PYCANDLE_API Tensor operator~(const Operand&);

  // An operator has no place for a Here: that of the operand which is converted.
#define PYCANDLE_OPERATOR(symbol)                                            \
  friend PYCANDLE_API Tensor operator symbol(const Tensor&, const Operand&); \
  friend PYCANDLE_API Tensor operator symbol(const Number&, const Tensor&);
  PYCANDLE_OPERATOR(+)
  PYCANDLE_OPERATOR(-)
  PYCANDLE_OPERATOR(*)
  PYCANDLE_OPERATOR(/)
  PYCANDLE_OPERATOR(%)  // has the sign of the divisor, as Python's
  PYCANDLE_OPERATOR(<)
  PYCANDLE_OPERATOR(<=)
  PYCANDLE_OPERATOR(>)
  PYCANDLE_OPERATOR(>=)
  PYCANDLE_OPERATOR(&)
  PYCANDLE_OPERATOR(|)
  PYCANDLE_OPERATOR(^)
#undef PYCANDLE_OPERATOR
  // Element by element, as torch's.
  friend PYCANDLE_API Tensor operator==(const Tensor&, const Operand&);
  friend PYCANDLE_API Tensor operator!=(const Tensor&, const Operand&);
  // The values when they are there (eagerly), else the type.
  friend PYCANDLE_API std::ostream& operator<<(std::ostream&, const Tensor&);

 private:
  friend class Capture;
  std::shared_ptr<const Leaf> leaf_;  // null: a value of a capture
  int32_t value_ = -1;
  uint32_t capture_ = 0;
};

// What an elementwise function takes: a tensor, or a number that takes its dtype from the tensors.
class PYCANDLE_API Operand {
 public:
  Operand(Tensor tensor, Here here = Here::current())  // NOLINT(google-explicit-constructor)
      : tensor_(std::move(tensor)), here_(here), kind_(Kind::tensor) {}
  Operand(Dim dim, Here here = Here::current())
      : dim_(dim), here_(here), kind_(Kind::dim) {}  // NOLINT(google-explicit-constructor)
  Operand(Scalar number, Here here = Here::current())  // NOLINT(google-explicit-constructor)
      : number_(number), here_(here), kind_(Kind::number) {}
  Operand(std::complex<double> number, Here here = Here::current())  // NOLINT(google-explicit-constructor)
      : Operand(Scalar(number), here) {}
  template <class T>
    requires std::integral<T> || std::floating_point<T>
  Operand(T number, Here here = Here::current()) : here_(here), kind_(Kind::number) {  // NOLINT(google-explicit-constructor)
    if constexpr (std::same_as<T, bool>)
      number_ = number;
    else if constexpr (std::integral<T>)
      number_ = static_cast<int64_t>(number);
    else
      number_ = static_cast<double>(number);
  }
  Here here() const { return here_; }  // where it became an operand

 private:
  friend class Capture;
  enum class Kind : uint8_t { tensor, number, dim };
  Tensor tensor_;
  Scalar number_;
  Dim dim_;
  Here here_;
  Kind kind_;
};

// An operand that is no tensor: what may stand on the left of one.
class PYCANDLE_API Number {
 public:
  template <class T>
    requires(std::convertible_to<T, Operand> && !std::convertible_to<T, Tensor>)
  Number(const T& value, Here here = Here::current()) : operand_(value, here) {}  // NOLINT(google-explicit-constructor)
  const Operand& operand() const { return operand_; }

 private:
  Operand operand_;
};

// start:stop:step; what is left out is the beginning, the end, 1.
struct Slice {
  std::optional<Dim> start, stop;
  int64_t step = 1;
  Slice() = default;
  explicit Slice(Dim from) : start(from) {}
  Slice(std::optional<Dim> from, std::optional<Dim> to, int64_t by = 1) : start(from), stop(to), step(by) {}
};
struct NewAxisTag {};
struct EllipsisTag {};
inline constexpr NewAxisTag NewAxis;
inline constexpr EllipsisTag Ellipsis;

class PYCANDLE_API Index {
 public:
  Index(Slice s, Here at = Here::current()) : kind(Kind::slice), slice(s), here(at) {}  // NOLINT(google-explicit-constructor)
  Index(Dim i, Here at = Here::current()) : kind(Kind::position), position(i), here(at) {}  // NOLINT(google-explicit-constructor)
  Index(int64_t i, Here at = Here::current()) : Index(Dim(i), at) {}  // NOLINT(google-explicit-constructor)
  Index(int i, Here at = Here::current()) : Index(Dim(i), at) {}  // NOLINT(google-explicit-constructor)
  Index(NewAxisTag, Here at = Here::current()) : kind(Kind::new_axis), here(at) {}  // NOLINT(google-explicit-constructor)
  Index(EllipsisTag, Here at = Here::current()) : kind(Kind::ellipsis), here(at) {}  // NOLINT(google-explicit-constructor)

  enum class Kind : uint8_t { slice, position, new_axis, ellipsis } kind;
  Slice slice;
  Dim position;
  Here here;
};

// The results of a functional that has several: auto [values, indices] = unpack<2>(functional::topk(x, 5, -1));
[[noreturn]] PYCANDLE_API void wrong_count(size_t expected, size_t found);
template <size_t count> std::array<Tensor, count> unpack(std::vector<Tensor> tensors) {
  if (tensors.size() != count) wrong_count(count, tensors.size());
  std::array<Tensor, count> all;
  for (size_t i = 0; i < count; ++i) all[i] = std::move(tensors[i]);
  return all;
}
template <size_t count> std::array<Tensor, count> Tensor::split(const Dims& sizes, int64_t axis, Here here) const {
  return unpack<count>(split(sizes, axis, here));
}
template <size_t count> std::array<Tensor, count> Tensor::chunk(int64_t axis, Here here) const {
  return unpack<count>(chunk(static_cast<int64_t>(count), axis, here));
}

PYCANDLE_API Tensor cat(const std::vector<Tensor>& tensors, int64_t axis = 0, Here = Here::current());  // promoted to one dtype
PYCANDLE_API Tensor stack(const std::vector<Tensor>& tensors, int64_t axis = 0, Here = Here::current());
PYCANDLE_API Tensor where(const Operand& condition, const Operand& yes, const Operand& no, Here = Here::current());
PYCANDLE_API Tensor matmul(const Tensor&, const Tensor&, Here = Here::current());
PYCANDLE_API Tensor full(const Dims& shape, const Scalar& value, DType = DType::f32, Here = Here::current());
PYCANDLE_API Tensor arange(Dim stop, Here = Here::current());
PYCANDLE_API Tensor arange(Dim start, Dim stop, int64_t step = 1, DType = DType::i64, Here = Here::current());

}  // namespace pycandle::front
