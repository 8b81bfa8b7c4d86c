#include "ops/core/onnx_helpers.h"
#include "base/file_dtypes.h"

#include <iterator>

namespace pycandle {
namespace {

constexpr std::optional<DType> kTypes[] = {std::nullopt,
                                           DType::f32,
                                           DType::u8,
                                           DType::i8,
                                           file_dtype::u16,
                                           DType::i16,
                                           DType::i32,
                                           DType::i64,
                                           std::nullopt,
                                           DType::boolean,
                                           DType::f16,
                                           DType::f64,
                                           file_dtype::u32,
                                           file_dtype::u64,
                                           DType::c64,
                                           DType::c128,
                                           DType::bf16,
                                           file_dtype::f8e4m3,
                                           file_dtype::f8e4m3fnuz,
                                           file_dtype::f8e5m2,
                                           file_dtype::f8e5m2fnuz,
                                           file_dtype::u4,
                                           file_dtype::i4,
                                           file_dtype::f4e2m1,
                                           file_dtype::f8e8m0,
                                           file_dtype::u2,
                                           file_dtype::i2};

thread_local std::function<Dim()> lent;  // by the DataSizes that lives

}  // namespace

DataSizes::DataSizes(std::function<Dim()> new_symbol) { lent = std::move(new_symbol); }
DataSizes::~DataSizes() { lent = nullptr; }
Dim DataSizes::of(AtenCall& c, size_t result, size_t axis) { return lent ? lent() : c.result(result).shape.at(axis); }

DType onnx_dtype(AtenCall& c, const char* attribute) {
  const int64_t type = c.integer(attribute);
  if (type >= 0 && type < static_cast<int64_t>(std::size(kTypes)) && kTypes[type]) return *kTypes[type];
  c.unsupported(std::string(attribute) + "=" + std::to_string(type) + " (an element type)");
}

std::optional<DType> maybe_onnx_dtype(AtenCall& c, const char* attribute) {
  if (c.is_none(attribute) || c.integer(attribute) == 0) return std::nullopt;
  return onnx_dtype(c, attribute);
}

}  // namespace pycandle
