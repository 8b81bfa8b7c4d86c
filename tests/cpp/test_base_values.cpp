// Errors, dtypes, scalars, hashes.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <limits>

#include "base/dtype.h"
#include "base/error.h"
#include "base/hash.h"

namespace pycandle {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

TEST(Errors, ReadAsAPersonWouldWriteThem) {
  const Error error = Error(ErrorCode::gap, "aten.cdist_forward is not supported")
                          .module_path("encoder.quantizer@0")
                          .python("my_model/quant.py:88", "d = torch.cdist(x, y)")
                          .found("3 times")
                          .hint("add a decomposition");
  EXPECT_EQ(error.text(),
            "aten.cdist_forward is not supported\n"
            "  in    encoder.quantizer@0, my_model/quant.py:88:  d = torch.cdist(x, y)\n"
            "  found 3 times\n"
            "  hint  add a decomposition");
  EXPECT_STREQ(error.what(), error.text().c_str());
  EXPECT_EQ(Error(ErrorCode::usage, "no such file").text(), "no such file");
}

TEST(Errors, KeepTheFactsOfTheInnermostPlace) {
  Error error(ErrorCode::bad_input, "x");
  error.op("add").python("a.py:1", "a").expected("f32");
  error.op("block").python("b.py:2", "b").expected("f64").found("i64");
  EXPECT_EQ(error.op(), "add");
  EXPECT_EQ(error.file_line(), "a.py:1");
  EXPECT_EQ(error.source_line(), "a");
  EXPECT_EQ(error.expected(), "f32");
  EXPECT_EQ(error.found(), "i64");
}

TEST(Errors, DecideTheExitStatus) {
  EXPECT_EQ(exit_status(ErrorCode::gap), 1);
  EXPECT_EQ(exit_status(ErrorCode::verdict), 1);
  EXPECT_EQ(exit_status(ErrorCode::usage), 2);
  EXPECT_EQ(exit_status(ErrorCode::bad_input), 2);
  EXPECT_EQ(exit_status(ErrorCode::internal), 3);
  EXPECT_STREQ(to_string(ErrorCode::bad_input), "bad_input");
  EXPECT_NO_THROW(require(true, ""));
  EXPECT_THROW(require(false, "broken"), Error);
}

TEST(DTypes, HaveNamesThatReadBack) {
  for (int i = 0; i < kDTypeCount; ++i) EXPECT_EQ(dtype_from_name(name_of(static_cast<DType>(i))), static_cast<DType>(i));
  EXPECT_EQ(name_of(DType::boolean), "bool");
  EXPECT_EQ(dtype_from_name("float32"), std::nullopt);
}

TEST(DTypes, KnowTheirArithmetic) {
  EXPECT_EQ(size_of(DType::c128), 16u);
  EXPECT_EQ(size_of(DType::boolean), 1u);
  EXPECT_TRUE(is_floating(DType::bf16) && !is_floating(DType::c64) && is_complex(DType::c64));
  EXPECT_TRUE(is_integral(DType::u8) && !is_integral(DType::boolean) && is_inexact(DType::c128));
  EXPECT_EQ(real_of(DType::c128), DType::f64);
  EXPECT_EQ(real_of(DType::i8), DType::i8);
  EXPECT_EQ(complex_of(DType::f16), DType::c64);
  EXPECT_EQ(lowest_of(DType::f16), -65504);
  EXPECT_EQ(highest_of(DType::bf16), 3.3895313892515355e38);
  EXPECT_EQ(highest_of(DType::u8), 255);
  EXPECT_EQ(lowest_of(DType::i32), -2147483648.0);
}

TEST(DTypes, HaveARoundoffOfHalfAnUlp) {
  for (const DType d : {DType::f16, DType::bf16, DType::f32}) {
    const double u = unit_roundoff(d);
    const auto rounded = [&](double v) {
      return d == DType::f16 ? from_f16(to_f16(v)) : d == DType::bf16 ? from_bf16(to_bf16(v)) : static_cast<float>(v);
    };
    EXPECT_EQ(rounded(1 + u), 1) << name_of(d);  // a tie, to even
    EXPECT_EQ(rounded(1 + 1.01 * u), 1 + 2 * u) << name_of(d);
  }
  EXPECT_EQ(unit_roundoff(DType::i32), 0);
  EXPECT_EQ(unit_roundoff(DType::c64), unit_roundoff(DType::f32));
}

struct Half {
  const char* name;
  int exponent_bits, fraction_bits;
  float (*from)(uint16_t);
  uint16_t (*to)(double);
  uint16_t infinity() const { return static_cast<uint16_t>(0x7fff & ~((1 << fraction_bits) - 1)); }
  // By the definition of the format.
  double value(uint16_t bits) const {
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const int exponent = (bits & 0x7fff) >> fraction_bits;
    const int fraction = bits & ((1 << fraction_bits) - 1);
    const double magnitude = exponent == 0 ? std::ldexp(fraction, 1 - bias - fraction_bits)
                                           : std::ldexp(fraction + (1 << fraction_bits), exponent - bias - fraction_bits);
    return (bits & 0x8000) != 0 ? -magnitude : magnitude;
  }
};
const Half kHalves[] = {{"f16", 5, 10, from_f16, to_f16}, {"bf16", 8, 7, from_bf16, to_bf16}};

TEST(HalfPrecision, EveryPatternReadsAsItsValueAndBack) {
  for (const Half& h : kHalves) {
    for (uint32_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      const uint16_t magnitude = bits & 0x7fff;
      if (magnitude > h.infinity()) {
        ASSERT_TRUE(std::isnan(h.from(bits))) << h.name << " " << i;
      } else if (magnitude == h.infinity()) {
        ASSERT_EQ(h.from(bits), bits == magnitude ? kInfinity : -kInfinity);
        ASSERT_EQ(h.to(h.from(bits)), bits);
      } else {
        ASSERT_EQ(h.from(bits), h.value(bits)) << h.name << " " << i;
        ASSERT_EQ(h.to(h.value(bits)), bits) << h.name << " " << i;
      }
    }
    EXPECT_TRUE(std::isnan(h.from(h.to(kNaN))));
    EXPECT_TRUE(std::isnan(h.from(h.to(-std::numeric_limits<double>::signaling_NaN()))));
  }
}

TEST(HalfPrecision, RoundsOnceToNearestEven) {
  for (const Half& h : kHalves) {
    for (uint16_t bits = 0; bits < h.infinity(); ++bits) {
      const double low = h.value(bits);
      const double high = h.value(static_cast<uint16_t>(bits + 1));  // above the largest: what infinity would be worth
      const double middle = (low + high) / 2;
      const auto even = static_cast<uint16_t>((bits & 1) == 0 ? bits : bits + 1);
      ASSERT_EQ(h.to(middle), even) << h.name << " " << bits;
      // The double next to the middle: a float in between would make it a tie.
      ASSERT_EQ(h.to(std::nextafter(middle, 0)), bits) << h.name << " " << bits;
      ASSERT_EQ(h.to(std::nextafter(middle, kInfinity)), bits + 1) << h.name << " " << bits;
      ASSERT_EQ(h.to(-middle), even | 0x8000);
    }
    EXPECT_EQ(h.to(1e300), h.infinity());
    EXPECT_EQ(h.to(-kInfinity), h.infinity() | 0x8000);
    EXPECT_EQ(h.to(5e-324), 0);
    EXPECT_EQ(h.to(-0.0), 0x8000);
  }
}

TEST(Scalars, PrintTheShortestTextThatReadsBack) {
  const std::vector<std::pair<Scalar, const char*>> cases = {{true, "true"},
                                                             {false, "false"},
                                                             {int64_t{1}, "1"},
                                                             {1.0, "1.0"},
                                                             {1e-5, "1e-05"},
                                                             {0.1, "0.1"},
                                                             {-0.0, "-0.0"},
                                                             {1e22, "1e+22"},
                                                             {kInfinity, "inf"},
                                                             {-kInfinity, "-inf"},
                                                             {kNaN, "nan"},
                                                             {-kNaN, "nan"},
                                                             {1.0 / 3, "0.3333333333333333"},
                                                             {100000.0, "100000.0"},
                                                             {std::complex<double>(1, 2), "(1+2j)"},
                                                             {std::complex<double>(0.5, -1), "(0.5-1j)"},
                                                             {std::complex<double>(0, kInfinity), "(0+infj)"},
                                                             {int64_t{INT64_MIN}, "-9223372036854775808"}};
  for (const auto& [scalar, text] : cases) EXPECT_EQ(to_string(scalar), text);
  for (const double v : {5e-324, 1.7976931348623157e308, 2.2250738585072011e-308, 123456.789})
    EXPECT_EQ(std::strtod(to_string(Scalar(v)).c_str(), nullptr), v);
}

TEST(Scalars, ConvertWithoutUndefinedBehaviour) {
  EXPECT_EQ(as_int(Scalar(-2.9)), -2);
  EXPECT_EQ(as_int(Scalar(1e30)), INT64_MIN);
  EXPECT_EQ(as_int(Scalar(kNaN)), INT64_MIN);
  EXPECT_EQ(as_int(Scalar(int64_t{INT64_MAX})), INT64_MAX);
  EXPECT_EQ(as_double(Scalar(true)), 1);
  EXPECT_EQ(as_double(Scalar(std::complex<double>(3, 4))), 3);
  EXPECT_EQ(as_complex(Scalar(int64_t{2})), std::complex<double>(2, 0));
  EXPECT_EQ(dtype_of(Scalar(true)), DType::boolean);
  EXPECT_EQ(dtype_of(Scalar(1.5)), DType::f64);
}

TEST(Hashes, AreStable) {
  EXPECT_EQ(hash128("").text(), "99aa06d3014798d86001c324468d497f");  // XXH3's documented value
  EXPECT_EQ(hash128("wte.weight"), hash128("wte.weight"));
  EXPECT_NE(hash128("wte.weight"), hash128("wpe.weight"));
  EXPECT_EQ(hash128("a").text().size(), 32u);
}

}  // namespace
}  // namespace pycandle
