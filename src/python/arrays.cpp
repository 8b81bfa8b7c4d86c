#include "arrays.h"

#include <nanobind/stl/string.h>

#include <cstring>

#include "base/error.h"
#include "base/file_dtypes.h"
#include "runtime/states.h"

namespace nb = nanobind;

namespace pycandle {
namespace {

struct DTypeRow {
  DType dtype;
  uint8_t code;
  uint8_t bits;
};
constexpr auto kInt = static_cast<uint8_t>(nb::dlpack::dtype_code::Int),
               kUInt = static_cast<uint8_t>(nb::dlpack::dtype_code::UInt),
               kFloat = static_cast<uint8_t>(nb::dlpack::dtype_code::Float),
               kBfloat = static_cast<uint8_t>(nb::dlpack::dtype_code::Bfloat),
               kComplex = static_cast<uint8_t>(nb::dlpack::dtype_code::Complex),
               kBool = static_cast<uint8_t>(nb::dlpack::dtype_code::Bool);
constexpr DTypeRow kDTypes[] = {{DType::f64, kFloat, 64},     {DType::f32, kFloat, 32},     {DType::f16, kFloat, 16},
                                {DType::bf16, kBfloat, 16},   {DType::i64, kInt, 64},       {DType::i32, kInt, 32},
                                {DType::i16, kInt, 16},       {DType::i8, kInt, 8},         {DType::u8, kUInt, 8},
                                {DType::boolean, kBool, 8},   {DType::c64, kComplex, 64},   {DType::c128, kComplex, 128},
                                {file_dtype::u16, kUInt, 16}, {file_dtype::u32, kUInt, 32}, {file_dtype::u64, kUInt, 64}};

}  // namespace

Array to_array(const std::string& what, const InArray& in, Memory memory) {
  for (const DTypeRow& row : kDTypes) {
    if (in.dtype().code != row.code || in.dtype().bits != row.bits || in.dtype().lanes != 1) continue;
    Sizes shape;
    for (size_t i = 0; i < in.ndim(); ++i) shape.push_back(static_cast<int64_t>(in.shape(i)));
    if (memory == Memory::shared && in.nbytes() > 0 && reinterpret_cast<uintptr_t>(in.data()) % (row.bits / 8) == 0) {
      const std::shared_ptr<InArray> owner(new InArray(in), [](InArray* array) {
        const nb::gil_scoped_acquire locked;
        delete array;
      });
      return Array(row.dtype, shape, in.data(), owner);
    }
    Array array(row.dtype, shape);
    if (array.bytes() > 0) std::memcpy(array.mutable_data(), in.data(), array.bytes());
    return array;
  }
  throw Error(ErrorCode::bad_input, what + " has a dtype that programs do not have")
      .expected("f64 f32 f16 bf16 i64 i32 i16 i8 u8 u16 u32 u64 bool c64 c128")
      .found("DLPack code " + std::to_string(in.dtype().code) + ", " + std::to_string(in.dtype().bits) + " bits");
}

std::map<std::string, Array> to_tensors(const nb::dict& arrays, const std::string& kind, Memory memory) {
  std::map<std::string, Array> tensors;
  for (auto [key, value] : arrays) {
    const std::string name = nb::cast<std::string>(key);
    InArray in;
    if (!nb::try_cast(value, in)) {
      throw Error(ErrorCode::bad_input, kind + " " + name + " is not an array")
          .expected("a contiguous CPU array: NumPy, torch, or anything with __dlpack__");
    }
    tensors[name] = to_array(kind + " " + name, in, memory);
  }
  return tensors;
}

nb::object to_python(const Array& array) {
  // NumPy has no floats or integers of fewer than 16 bits beside i8 and u8: their bits, which running/arrays.py names.
  if (is_stored_only(array.dtype()) && size_of(array.dtype()) == 1)
    return to_python(Array(DType::u8, array.shape(), array.data(), std::make_shared<Array>(array)));
  for (const DTypeRow& row : kDTypes) {
    if (array.dtype() != row.dtype) continue;
    Array* kept = new Array(copy_of(array));
    const nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Array*>(p); });
    std::vector<size_t> shape(array.shape().begin(), array.shape().end());
    return nb::cast(nb::ndarray<nb::array_api>(kept->mutable_data(), shape.size(), shape.data(), owner, nullptr,
                                               nb::dlpack::dtype{row.code, row.bits, 1}));
  }
  internal_error("a dtype without a DLPack code");
}

}  // namespace pycandle
