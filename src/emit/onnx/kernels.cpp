#include "emit/onnx/kernels.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>

namespace pycandle::emit::onnx {
namespace {

constexpr unsigned bit(DType d) { return 1U << static_cast<unsigned>(d); }
constexpr unsigned all(std::initializer_list<DType> dtypes) {
  unsigned mask = 0;
  for (const DType d : dtypes) mask |= bit(d);
  return mask;
}

constexpr unsigned kFloats = all({DType::f64, DType::f32, DType::f16});
constexpr unsigned kWords = kFloats | all({DType::i64, DType::i32});
constexpr unsigned kIntegers = kWords | all({DType::i16, DType::i8, DType::u8});
constexpr unsigned kSomeIntegers = kWords | all({DType::i8, DType::u8});
constexpr unsigned kAllButBf16 = kIntegers | bit(DType::boolean);
constexpr unsigned kAll = kAllButBf16 | bit(DType::bf16);

// What moves elements takes all; the rest floats alone, unless it stands here.
const std::map<std::string_view, unsigned>& kernels() {
  static const std::map<std::string_view, unsigned> table = {
      {"Add", kIntegers},
      {"Sub", kIntegers},
      {"Mul", kIntegers},
      {"Div", kIntegers},
      {"Abs", kIntegers},
      {"Neg", kIntegers & ~bit(DType::u8)},
      {"Sign", kIntegers | bit(DType::bf16)},
      {"Mod", kIntegers},
      {"Pow", kWords},
      {"Max", kSomeIntegers},
      {"Min", kSomeIntegers},
      {"Clip", kSomeIntegers},
      {"Where", kSomeIntegers},
      {"Equal", kAllButBf16},
      {"Less", kIntegers},
      {"LessOrEqual", kIntegers},
      {"Greater", kIntegers},
      {"GreaterOrEqual", kIntegers},
      {"BitwiseAnd", kIntegers},
      {"BitwiseOr", kIntegers},
      {"BitwiseXor", kIntegers},
      {"BitwiseNot", kIntegers},
      {"IsNaN", kFloats | bit(DType::bf16)},
      {"IsInf", kFloats | bit(DType::bf16)},
      {"MatMul", kWords},
      {"Relu", kFloats | all({DType::i32, DType::i8})},
      {"ReduceSum", kWords},
      {"ReduceProd", kWords},
      {"ReduceMax", kSomeIntegers | bit(DType::boolean)},
      {"ReduceMin", kSomeIntegers | bit(DType::boolean)},
      {"ArgMax", kSomeIntegers},
      {"ArgMin", kSomeIntegers},
      {"CumSum", kWords},
      {"CumProd", kWords},
      {"TopK", kIntegers},
      {"NonZero", all({DType::f32, DType::i32, DType::i64, DType::u8, DType::boolean})},
      {"Unique", all({DType::f32, DType::f64, DType::i64, DType::i8})},
      {"LayerNormalization", kFloats | bit(DType::bf16)},
      {"Expand", kAllButBf16},
      {"Tile", kAllButBf16},
      {"Pad", kSomeIntegers | bit(DType::boolean)},
      {"Cast", kAll},
      {"Concat", kAll},
      {"Gather", kAll},
      {"GatherElements", kAll},
      {"GatherND", kAll},
      {"Identity", kAll},
      {"Reshape", kAll},
      {"ScatterElements", kAll},
      {"ScatterND", kAll},
      {"Slice", kAll},
      {"Squeeze", kAll},
      {"Transpose", kAll},
      {"Unsqueeze", kAll},
  };
  return table;
}

}  // namespace

DType kernel_dtype(const std::string& op, DType d) {
  const auto found = kernels().find(op);
  const unsigned mask = found == kernels().end() ? kFloats : found->second;
  if ((mask & bit(d)) != 0 || d == DType::f64 || is_complex(d)) return d;
  if (is_floating(d)) return DType::f32;
  for (const DType wider : {DType::u8, DType::i32, DType::i64}) {
    const bool holds = wider == DType::u8 ? d == DType::boolean : size_of(wider) > size_of(d);
    if (holds && (mask & bit(wider)) != 0) return wider;
  }
  return d;
}

size_t values_among_inputs(const std::string& op, size_t inputs) {
  static const std::map<std::string_view, size_t> kFirst = {
      {"Expand", 1},    {"Tile", 1},   {"ReduceSum", 1}, {"ReduceProd", 1}, {"ReduceMax", 1},
      {"ReduceMin", 1}, {"CumSum", 1}, {"CumProd", 1},   {"TopK", 1},       {"ReduceMean", 1}};
  const auto found = kFirst.find(op);
  return found == kFirst.end() ? inputs : std::min(inputs, found->second);
}

}  // namespace pycandle::emit::onnx
