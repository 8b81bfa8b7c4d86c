// Element types, their names and their arithmetic facts.
#pragma once

#include <complex>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "pycandle/api.h"

namespace pycandle {

enum class DType : uint8_t { f64, f32, f16, bf16, i64, i32, i16, i8, u8, boolean, c64, c128 };
inline constexpr int kDTypeCount = 12;

PYCANDLE_API std::string_view name_of(DType);                       // "f32", "bool", ...
PYCANDLE_API std::optional<DType> dtype_from_name(std::string_view);  // the reverse
PYCANDLE_API size_t size_of(DType);                                 // bytes an element

PYCANDLE_API bool is_floating(DType);  // f64 f32 f16 bf16
PYCANDLE_API bool is_complex(DType);   // c64 c128
PYCANDLE_API bool is_integral(DType);  // i64 i32 i16 i8 u8 (not bool)
inline bool is_inexact(DType d) { return is_floating(d) || is_complex(d); }
PYCANDLE_API DType real_of(DType);     // c64 -> f32, c128 -> f64, others themselves
PYCANDLE_API DType complex_of(DType);  // f32 -> c64, f64 -> c128, f16/bf16 -> c64

PYCANDLE_API double unit_roundoff(
    DType);  // half an ulp of 1: f32 2^-24, f16 2^-11, bf16 2^-8, f64 2^-53; 0 for exact types; complex as its parts
PYCANDLE_API double lowest_of(DType);      // torch.finfo(d).min or iinfo(d).min
PYCANDLE_API double highest_of(DType);

PYCANDLE_API float from_f16(uint16_t bits);
PYCANDLE_API uint16_t to_f16(double value);  // round to nearest even, once, from double
PYCANDLE_API float from_bf16(uint16_t bits);
PYCANDLE_API uint16_t to_bf16(double value);
// Truncates; NaN and what does not fit give the lowest int64, as x86 (and so torch) does.
PYCANDLE_API int64_t to_int64(double value);

// A number as Python would write it: True, 3, 0.5, 1+2j.
using Scalar = std::variant<bool, int64_t, double, std::complex<double>>;
PYCANDLE_API double as_double(const Scalar&);                 // the real part of a complex number
PYCANDLE_API int64_t as_int(const Scalar&);                   // truncates
PYCANDLE_API std::complex<double> as_complex(const Scalar&);
PYCANDLE_API DType dtype_of(const Scalar&);                   // boolean, i64, f64, c128: the category, not the default dtype
// The shortest text that reads back to the same number: 1 1.0 1e-05 inf nan true (1+2j).
PYCANDLE_API std::string to_string(const Scalar&);

}  // namespace pycandle
