#include "backends/c/helpers.h"

#include <iterator>
#include <vector>

#include "backends/c/tiles.h"

namespace pycandle::c {
namespace {

struct Helper {
  const char* name;
  std::vector<const char*> needs;
  const char* text;
};

// In an order in which each stands after what it needs.
const Helper kHelpers[] = {
    {"float_of_bits", {}, R"(static inline float float_of_bits(uint32_t bits) {
  const union {
    uint32_t bits;
    float value;
  } both = {bits};
  return both.value;
}
)"},
    {"bits_of_float", {}, R"(static inline uint32_t bits_of_float(float value) {
  const union {
    float value;
    uint32_t bits;
  } both = {value};
  return both.bits;
}
)"},
    {"float_of_bf16",
     {"float_of_bits"},
     R"(static inline float float_of_bf16(uint16_t bits) { return float_of_bits((uint32_t)bits << 16); }
)"},
    {"bf16_of", {"bits_of_float"}, R"(/* to nearest, halves to even */
static inline uint16_t bf16_of(float value) {
  const uint32_t bits = bits_of_float(value);
  if (value != value) return (uint16_t)(bits >> 16 | 0x40);
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
)"},
    {"float_of_f16", {"float_of_bits"}, R"(static inline float float_of_f16(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
  if (exponent == 31) return float_of_bits(sign | 0x7f800000 | mantissa << 13);
  if (exponent != 0) return float_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
  const float small = (float)mantissa * 5.9604645e-08f;
  return sign ? -small : small;
}
)"},
    {"f16_of", {"bits_of_float", "float_of_bits"}, R"(/* to nearest, halves to even */
static inline uint16_t f16_of(float value) {
  const uint32_t bits = bits_of_float(value), sign = bits >> 16 & 0x8000, rest = bits & 0x7fffffff;
  if (rest > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (rest >= 0x477ff000) return (uint16_t)(sign | 0x7c00);
  if (rest < 0x38800000) {
    const float shifted = float_of_bits(rest) + 0.5f; /* the sum rounds where f16 does */
    return (uint16_t)(sign | (bits_of_float(shifted) - 0x3f000000));
  }
  return (uint16_t)(sign | ((rest + 0xfff + (rest >> 13 & 1) - 0x38000000) >> 13));
}
)"},
    {"to_i64", {}, R"(static inline int64_t to_i64(double value) {
  return value >= -9223372036854775808.0 && value < 9223372036854775808.0 ? (int64_t)value : INT64_MIN;
}
)"},
    {"exp_f32", {"float_of_bits", "bits_of_float"}, R"(/* 2^n times a polynomial of the rest */
static inline float exp_f32(float x) {
  x = x < -104.0f ? -104.0f : x > 89.0f ? 89.0f : x;
  const float turned = x * 1.44269504f + 12582912.0f, n = turned - 12582912.0f;
  const float r = x - n * 0.693359375f - n * -2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  const int32_t power = (int32_t)(bits_of_float(turned) - 0x4b400000u), half = power >> 1;
  return p * float_of_bits((uint32_t)(half + 127) << 23) * float_of_bits((uint32_t)(power - half + 127) << 23);
}
)"},
    {"log_f32", {"float_of_bits", "bits_of_float"}, R"(static inline float log_f32(float x) {
  const float scaled = x < 1.17549435e-38f ? x * 8388608.0f : x;
  const uint32_t bits = bits_of_float(scaled);
  const float m = float_of_bits((bits & 0x7fffff) | 0x3f000000);
  const float e = (float)((int32_t)(bits >> 23 & 255) - 126 - (x < 1.17549435e-38f ? 23 : 0) - (m < 0.707106781f ? 1 : 0));
  const float r = m < 0.707106781f ? m + m - 1.0f : m - 1.0f, z = r * r;
  float p = 7.0376836292e-2f;
  p = p * r - 1.1514610310e-1f;
  p = p * r + 1.1676998740e-1f;
  p = p * r - 1.2420140846e-1f;
  p = p * r + 1.4249322787e-1f;
  p = p * r - 1.6668057665e-1f;
  p = p * r + 2.0000714765e-1f;
  p = p * r - 2.4999993993e-1f;
  p = p * r + 3.3333331174e-1f;
  const float y = p * r * z + e * -2.12194440e-4f - 0.5f * z;
  const float result = r + y + e * 0.693359375f;
  return x > 0 ? (x > 3.40282347e+38f ? x : result) : x == 0 ? -INF_F32 : NAN_F32;
}
)"},
    {"tanh_f32", {"exp_f32"}, R"(static inline float tanh_f32(float x) {
  const float a = x < 0 ? -x : x, z = x * x;
  float p = -5.70498872745e-3f;
  p = p * z + 2.06390887954e-2f;
  p = p * z - 5.37397155531e-2f;
  p = p * z + 1.33314422036e-1f;
  p = p * z - 3.33332819422e-1f;
  const float near = p * z * x + x, far = 1.0f - 2.0f / (exp_f32(2.0f * a) + 1.0f);
  return a < 0.625f ? near : x < 0 ? -far : far;
}
)"},
    {"erf_f32", {}, R"(/* a quotient of polynomials; 1 to the last place from 4 on */
static inline float erf_f32(float x) {
  x = x < -4.0f ? -4.0f : x > 4.0f ? 4.0f : x;
  const float z = x * x;
  float p = -2.72614225801306e-10f;
  p = p * z + 2.77068142495902e-08f;
  p = p * z - 2.10102402082508e-06f;
  p = p * z - 5.69250639462346e-05f;
  p = p * z - 7.34990630326855e-04f;
  p = p * z - 2.95459980854025e-03f;
  p = p * z - 1.60960333262415e-02f;
  float q = -1.45660718464996e-05f;
  q = q * z - 2.13374055278905e-04f;
  q = q * z - 1.68282697438203e-03f;
  q = q * z - 7.37332916720468e-03f;
  q = q * z - 1.42647390514189e-02f;
  return x * p / q;
}
)"},
    {"exp_f64", {}, "static inline double exp_f64(double x) { return exp(x); }\n"},
    {"log_f64", {}, "static inline double log_f64(double x) { return log(x); }\n"},
    {"tanh_f64", {}, "static inline double tanh_f64(double x) { return tanh(x); }\n"},
    {"erf_f64", {}, "static inline double erf_f64(double x) { return erf(x); }\n"},
    {"erfinv_f64", {}, R"(/* Giles' first guess and two steps of Halley's method */
static inline double erfinv_f64(double y) {
  if (y != y || y < -1 || y > 1) return NAN_F64;
  if (y == 1) return INF_F64;
  if (y == -1) return -INF_F64;
  const double w = -log((1 - y) * (1 + y));
  const double a = w < 5 ? w - 2.5 : sqrt(w) - 3;
  double x = w < 5 ? 1.50140941 + a * (0.246640727 + a * (-0.00417768164 + a * (-0.00125372503 + a * 0.00021858087)))
                   : 2.83297682 + a * (1.00167406 + a * (0.00943887047 + a * (-0.0076224613 + a * 0.00573950773)));
  x *= y;
  for (int i = 0; i < 3; ++i) {
    const double error = (erf(x) - y) / (1.1283791670955126 * exp(-x * x));
    x -= error / (1 + x * error);
  }
  return x;
}
)"},
    {"pow_i64", {}, R"(static inline int64_t pow_i64(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 != 0 ? -1 : 1) : 0;
  uint64_t result = 1, factor = (uint64_t)base;
  for (; exponent > 0; exponent >>= 1, factor *= factor) {
    if (exponent & 1) result *= factor;
  }
  return (int64_t)result;
}
)"},
    {"remainder_f64", {}, R"(/* the sign of b */
static inline double remainder_f64(double a, double b) {
  const double rest = fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
)"},
    {"floor_divide_f64", {}, R"(static inline double floor_divide_f64(double a, double b) {
  if (b == 0) return a / b;
  const double rest = fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return copysign(0.0, a / b);
  const double floored = floor(quotient);
  return quotient - floored > 0.5 ? floored + 1 : floored;
}
)"},
    {"widen", {}, R"(/* Weights of eight bits, in panels of 16 outputs, times the scale of each output. */
static void widen(const int8_t *restrict w, const float *restrict scales, ptrdiff_t depth, float *restrict block) {
  for (ptrdiff_t k = 0; k < depth; ++k) {
    for (int j = 0; j < 16; ++j) block[k * 16 + j] = scales[j] * (float)w[k * 16 + j];
  }
}
)"},
    {"fmod_i64", {}, "static inline int64_t fmod_i64(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }\n"},
    {"remainder_i64", {"fmod_i64"}, R"(static inline int64_t remainder_i64(int64_t a, int64_t b) {
  const int64_t rest = fmod_i64(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}
)"},
    {"trunc_divide_i64", {}, R"(static inline int64_t trunc_divide_i64(int64_t a, int64_t b) {
  return b == 0 ? 0 : b == -1 ? (int64_t)(0u - (uint64_t)a) : a / b;
}
)"},
    {"floor_divide_i64", {"fmod_i64", "trunc_divide_i64"}, R"(static inline int64_t floor_divide_i64(int64_t a, int64_t b) {
  return trunc_divide_i64(a, b) - (fmod_i64(a, b) != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
)"},
};

// With --freestanding, in the place of libm.
const Helper kOwn[] = {
    {"fabsf", {}, "static inline float own_fabsf(float x) { return x < 0 ? -x : x == 0 ? 0 : x; }\n#define fabsf own_fabsf\n"},
    {"fabs", {}, "static inline double own_fabs(double x) { return x < 0 ? -x : x == 0 ? 0 : x; }\n#define fabs own_fabs\n"},
    {"sqrt", {}, R"(/* Newton's method from a guess of half the exponent */
static inline double own_sqrt(double x) {
  if (!(x > 0) || x > 1.7976931348623157e308) return x == 0 || x > 0 ? x : NAN_F64;
  const double scaled = x < 1e-290 ? x * 18014398509481984.0 : x;
  union {
    double value;
    uint64_t bits;
  } guess = {scaled};
  guess.bits = (guess.bits >> 1) + (UINT64_C(1023) << 51);
  double y = guess.value;
  for (int i = 0; i < 5; ++i) y = 0.5 * (y + scaled / y);
  return x < 1e-290 ? y / 134217728.0 : y;
}
#define sqrt own_sqrt
)"},
    {"sqrtf",
     {"sqrt"},
     "static inline float own_sqrtf(float x) { return (float)own_sqrt((double)x); }\n#define sqrtf own_sqrtf\n"},
    {"floor", {}, R"(static inline double own_floor(double x) {
  if (!(x > -4503599627370496.0 && x < 4503599627370496.0)) return x;
  const double whole = (double)(int64_t)x;
  return whole > x ? whole - 1 : whole;
}
#define floor own_floor
)"},
    {"floorf",
     {"floor"},
     "static inline float own_floorf(float x) { return (float)own_floor((double)x); }\n#define floorf own_floorf\n"},
    {"ceilf",
     {"floor"},
     "static inline float own_ceilf(float x) { return (float)-own_floor(-(double)x); }\n#define ceilf own_ceilf\n"},
    {"truncf",
     {"floor"},
     R"(static inline float own_truncf(float x) { return x < 0 ? (float)-own_floor(-(double)x) : (float)own_floor((double)x); }
#define truncf own_truncf
)"},
    {"rintf", {}, R"(/* halves to even, as the addition rounds */
static inline float own_rintf(float x) {
  if (!(x > -8388608.0f && x < 8388608.0f)) return x;
  volatile float moved = x < 0 ? x - 8388608.0f : x + 8388608.0f;
  return x < 0 ? moved + 8388608.0f : moved - 8388608.0f;
}
#define rintf own_rintf
)"},
};

const char* const kLibm[] = {"exp2",
                             "exp2f",
                             "expm1",
                             "expm1f",
                             "log2",
                             "log2f",
                             "log10",
                             "log10f",
                             "log1p",
                             "log1pf",
                             "sin",
                             "sinf",
                             "cos",
                             "cosf",
                             "tan",
                             "tanf",
                             "asin",
                             "asinf",
                             "acos",
                             "acosf",
                             "atan",
                             "atanf",
                             "sinh",
                             "sinhf",
                             "cosh",
                             "coshf",
                             "asinh",
                             "asinhf",
                             "acosh",
                             "acoshf",
                             "atanh",
                             "atanhf",
                             "erfc",
                             "erfcf",
                             "lgamma",
                             "pow",
                             "powf",
                             "fmod",
                             "fmodf",
                             "atan2",
                             "atan2f",
                             "ceil",
                             "trunc",
                             "rint",
                             "nextafter",
                             "nextafterf",
                             "exp_f64",
                             "log_f64",
                             "tanh_f64",
                             "erf_f64",
                             "erfinv_f64",
                             "remainder_f64",
                             "floor_divide_f64"};

std::string texts_of(const Helper* first, const Helper* end, const std::set<std::string>& needed) {
  std::set<std::string> all = needed;
  for (const Helper* h = end; h-- != first;) {
    if (all.count(h->name) == 0) continue;
    for (const char* other : h->needs) all.insert(other);
  }
  std::string text;
  for (const Helper* h = first; h != end; ++h) {
    if (all.count(h->name) != 0) text += h->text;
  }
  return text;
}

}  // namespace

std::string function_of_libm(const std::set<std::string>& needed) {
  for (const char* name : kLibm) {
    if (needed.count(name) != 0) return name;
  }
  return {};
}

std::string helper_texts(const std::set<std::string>& needed, bool is_freestanding) {
  std::string text = is_freestanding ? texts_of(std::begin(kOwn), std::end(kOwn), needed) : std::string();
  text += texts_of(std::begin(kHelpers), std::end(kHelpers), needed);
  if (needed.count("panel") != 0) text += tile_texts();
  return text.empty() ? text : text + "\n";
}

}  // namespace pycandle::c
