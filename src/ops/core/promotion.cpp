#include "ops/core/promotion.h"

#include <array>
#include <cmath>

namespace pycandle {
namespace {

// torch's lattice. f16 and bf16 meet in f32, u8 and i8 in i16; otherwise the later category, then the wider type wins.
int integer_width(DType d) {
  switch (d) {
    case DType::boolean: return 0;
    case DType::u8:
    case DType::i8: return 1;
    case DType::i16: return 2;
    case DType::i32: return 4;
    default: return 8;
  }
}

struct Categories {
  std::optional<DType> dimensioned, zero_dim, number;
  static void join(std::optional<DType>& into, DType d) { into = into ? promote_types(*into, d) : d; }
};

// A lower category decides only what kind of number the result is, never how wide it is.
std::optional<DType> combine(std::optional<DType> higher, std::optional<DType> lower) {
  if (!higher) return lower;
  if (!lower || is_complex(*higher)) return higher;
  if (is_floating(*higher)) return is_complex(*lower) ? complex_of(*higher) : *higher;
  if (*higher == DType::boolean || is_inexact(*lower)) return promote_types(*higher, *lower);
  return higher;
}

DType default_dtype(const Scalar& number) {
  DType category = dtype_of(number);
  return category == DType::f64 ? DType::f32 : category == DType::c128 ? DType::c64 : category;
}

bool is_reduced(DType d) { return d == DType::f16 || d == DType::bf16; }

// Rounding the number to the tensor's dtype changes nothing, so the plain form says the same.
bool is_exact_in(const Scalar& number, DType d) {
  double value = as_double(number);
  double rounded = d == DType::f16 ? from_f16(to_f16(value)) : from_bf16(to_bf16(value));
  return std::isnan(value) || rounded == value;
}

bool loses_bits(const Builder& b, const Operand& operand, DType to) {
  if (auto* number = std::get_if<Scalar>(&operand)) return !is_exact_in(*number, to);
  if (auto* v = std::get_if<ValueId>(&operand)) return b.rank(*v) == 0 && b.dtype(*v) != to && is_floating(b.dtype(*v));
  return true;
}

}  // namespace

DType promote_types(DType a, DType b) {
  if (a == b) return a;
  if (is_complex(a) || is_complex(b)) {
    bool wide = a == DType::c128 || b == DType::c128 || a == DType::f64 || b == DType::f64;
    return wide ? DType::c128 : DType::c64;
  }
  if (is_floating(a) && is_floating(b)) {
    if (a == DType::f64 || b == DType::f64) return DType::f64;
    return DType::f32;  // f32 with anything narrower, or f16 with bf16
  }
  if (is_floating(a)) return a;
  if (is_floating(b)) return b;
  if (integer_width(a) == integer_width(b)) return DType::i16;  // u8 with i8
  return integer_width(a) > integer_width(b) ? a : b;
}

DType float_result(DType d) { return is_inexact(d) ? d : DType::f32; }

DType result_type(const Builder& b, const std::vector<Operand>& operands) {
  Categories found;
  for (const Operand& operand : operands) {
    if (auto* v = std::get_if<ValueId>(&operand)) {
      if (*v == kNoValue) continue;
      Categories::join(b.rank(*v) > 0 ? found.dimensioned : found.zero_dim, b.dtype(*v));
    } else if (auto* number = std::get_if<Scalar>(&operand)) {
      Categories::join(found.number, default_dtype(*number));
    } else {
      Categories::join(found.number, DType::i64);
    }
  }
  auto result = combine(found.dimensioned, combine(found.zero_dim, found.number));
  require(result.has_value(), "result_type of no operand");
  return *result;
}

ValueId materialise(Builder& b, const Operand& operand, DType to) {
  if (auto* v = std::get_if<ValueId>(&operand)) return b.cast(*v, to);
  if (auto* dim = std::get_if<Dim>(&operand)) {
    if (!dim->is_number()) return b.cast(b.dim_value(*dim), to);
    return b.full(Scalar{dim->number()}, to);
  }
  const Scalar& number = std::get<Scalar>(operand);
  // Written in the dtype's own kind, so that full(2, f32) and full(2.0, f32) are one thing.
  if (is_complex(to)) return b.full(Scalar{as_complex(number)}, to);
  if (is_floating(to)) return b.full(Scalar{as_double(number)}, to);
  if (to == DType::boolean) return b.full(Scalar{as_complex(number) != std::complex<double>{}}, to);
  return b.full(Scalar{as_int(number)}, to);
}

Values promote(Builder& b, const std::vector<Operand>& operands, std::optional<DType> to) {
  DType common = to ? *to : result_type(b, operands);
  Values values;
  for (const Operand& operand : operands) values.push_back(materialise(b, operand, common));
  return values;
}

Values promote_and_broadcast(Builder& b, const std::vector<Operand>& operands, std::optional<DType> to) {
  Values values = promote(b, operands, to);
  Shape common;
  for (ValueId v : values) common = broadcast_shapes(common, b.shape(v));
  for (ValueId& v : values) v = b.broadcast_to(v, common);
  return values;
}

ValueId arithmetic(Builder& b, std::string_view op, const Operand& left, const Operand& right, std::optional<DType> to) {
  DType common = to ? *to : result_type(b, {left, right});
  if (common == DType::boolean) {
    if (op == "add" || op == "maximum") op = "bitwise_or";
    if (op == "mul" || op == "minimum") op = "bitwise_and";
  }
  bool unrounded_right = op == "mul" || op == "div" || op == "floor_divide" || op == "trunc_divide";
  if (is_reduced(common) && unrounded_right && loses_bits(b, right, common)) {
    Values wide = promote_and_broadcast(b, {materialise(b, left, common), right}, DType::f32);
    return b.narrowed(b.create(op, wide), common);
  }
  return b.create(op, promote_and_broadcast(b, {left, right}, common));
}

}  // namespace pycandle
