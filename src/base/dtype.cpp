#include "base/dtype.h"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>

#include "base/file_dtypes.h"
#include "base/half.h"

namespace pycandle {

namespace {

enum class Family : uint8_t { floating, integral, boolean, complex };

struct Facts {
  std::string_view name;
  uint8_t size;
  Family family;
  DType real, complex;
  double roundoff, lowest, highest;
};

template <class T> constexpr Facts integer_facts(std::string_view name, DType self) {
  return {name,
          sizeof(T),
          Family::integral,
          self,
          DType::c64,
          0.0,
          static_cast<double>(std::numeric_limits<T>::lowest()),
          static_cast<double>(std::numeric_limits<T>::max())};
}

constexpr double kMax64 = std::numeric_limits<double>::max();
constexpr double kMax32 = std::numeric_limits<float>::max();
constexpr double kMax16 = 65504.0;
constexpr double kMaxB16 = 0x1.fep127;

// In the order of DType.
constexpr std::array<Facts, kAllDTypeCount> kFacts = {{
    {"f64", 8, Family::floating, DType::f64, DType::c128, 0x1p-53, -kMax64, kMax64},
    {"f32", 4, Family::floating, DType::f32, DType::c64, 0x1p-24, -kMax32, kMax32},
    {"f16", 2, Family::floating, DType::f16, DType::c64, 0x1p-11, -kMax16, kMax16},
    {"bf16", 2, Family::floating, DType::bf16, DType::c64, 0x1p-8, -kMaxB16, kMaxB16},
    integer_facts<int64_t>("i64", DType::i64),
    integer_facts<int32_t>("i32", DType::i32),
    integer_facts<int16_t>("i16", DType::i16),
    integer_facts<int8_t>("i8", DType::i8),
    integer_facts<uint8_t>("u8", DType::u8),
    {"bool", 1, Family::boolean, DType::boolean, DType::c64, 0.0, 0.0, 1.0},
    {"c64", 8, Family::complex, DType::f32, DType::c64, 0x1p-24, -kMax32, kMax32},
    {"c128", 16, Family::complex, DType::f64, DType::c128, 0x1p-53, -kMax64, kMax64},
    integer_facts<uint16_t>("u16", file_dtype::u16),
    integer_facts<uint32_t>("u32", file_dtype::u32),
    integer_facts<uint64_t>("u64", file_dtype::u64),
    {"f8e4m3", 1, Family::floating, file_dtype::f8e4m3, DType::c64, 0x1p-4, -448, 448},
    {"f8e4m3fnuz", 1, Family::floating, file_dtype::f8e4m3fnuz, DType::c64, 0x1p-4, -240, 240},
    {"f8e5m2", 1, Family::floating, file_dtype::f8e5m2, DType::c64, 0x1p-3, -57344, 57344},
    {"f8e5m2fnuz", 1, Family::floating, file_dtype::f8e5m2fnuz, DType::c64, 0x1p-3, -57344, 57344},
    {"f8e8m0", 1, Family::floating, file_dtype::f8e8m0, DType::c64, 0.5, 0x1p-127, 0x1p127},
    {"f4e2m1", 1, Family::floating, file_dtype::f4e2m1, DType::c64, 0.25, -6, 6},
    {"i4", 1, Family::integral, file_dtype::i4, DType::c64, 0.0, -8, 7},
    {"u4", 1, Family::integral, file_dtype::u4, DType::c64, 0.0, 0, 15},
    {"i2", 1, Family::integral, file_dtype::i2, DType::c64, 0.0, -2, 1},
    {"u2", 1, Family::integral, file_dtype::u2, DType::c64, 0.0, 0, 3},
}};

const Facts& facts(DType d) { return kFacts.at(static_cast<size_t>(d)); }

std::string number_text(double value, bool always_a_float) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::string text = fmt::format("{}", value);
  if (always_a_float && text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

template <class... F> struct Overloaded : F... {
  using F::operator()...;
};
template <class... F> Overloaded(F...) -> Overloaded<F...>;

}  // namespace

std::string_view name_of(DType d) { return facts(d).name; }
size_t size_of(DType d) { return facts(d).size; }
bool is_floating(DType d) { return facts(d).family == Family::floating; }
bool is_complex(DType d) { return facts(d).family == Family::complex; }
bool is_integral(DType d) { return facts(d).family == Family::integral; }
DType real_of(DType d) { return facts(d).real; }
DType complex_of(DType d) { return facts(d).complex; }
double unit_roundoff(DType d) { return facts(d).roundoff; }
double lowest_of(DType d) { return facts(d).lowest; }
double highest_of(DType d) { return facts(d).highest; }

std::optional<DType> dtype_from_name(std::string_view name) {
  for (size_t i = 0; i < kFacts.size(); ++i)
    if (kFacts[i].name == name) return static_cast<DType>(i);
  return std::nullopt;
}

float from_f16(uint16_t bits) { return detail::f16_to_float(bits); }
uint16_t to_f16(double value) { return detail::double_to_f16(value); }
float from_bf16(uint16_t bits) { return detail::bf16_to_float(bits); }
uint16_t to_bf16(double value) { return detail::double_to_bf16(value); }

int64_t to_int64(double value) {
  return value >= -0x1p63 && value < 0x1p63 ? static_cast<int64_t>(value) : std::numeric_limits<int64_t>::min();
}

double as_double(const Scalar& s) { return as_complex(s).real(); }

int64_t as_int(const Scalar& s) {
  if (const auto* i = std::get_if<int64_t>(&s)) return *i;  // not every int64 is a double
  return to_int64(as_double(s));
}

std::complex<double> as_complex(const Scalar& s) {
  return std::visit(
      Overloaded{[](std::complex<double> c) { return c; }, [](auto v) { return std::complex<double>(static_cast<double>(v)); }},
      s);
}

DType dtype_of(const Scalar& s) {
  constexpr std::array<DType, 4> kCategory = {DType::boolean, DType::i64, DType::f64, DType::c128};
  return kCategory.at(s.index());
}

std::string to_string(const Scalar& s) {
  return std::visit(Overloaded{[](bool v) -> std::string { return v ? "true" : "false"; },
                               [](int64_t v) { return std::to_string(v); }, [](double v) { return number_text(v, true); },
                               [](std::complex<double> v) {
                                 const std::string imaginary = number_text(v.imag(), false);
                                 return "(" + number_text(v.real(), false) + (imaginary[0] == '-' ? "" : "+") + imaginary + "j)";
                               }},
                    s);
}

}  // namespace pycandle
