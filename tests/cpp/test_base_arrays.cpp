#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/array.h"
#include "base/error.h"
#include "base/file_dtypes.h"
#include "base/strides.h"

namespace pycandle {
namespace {

using Complex = std::complex<double>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();
const double kNaN = std::nan("");

TEST(Arrays, StartWithZerosAndShareTheirMemory) {
  Array a(DType::i32, {2, 3});
  EXPECT_EQ(load_int(a), std::vector<int64_t>(6, 0));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(a.data()) % 64, 0u);
  a.mutable_as<int32_t>()[4] = 7;
  const Array b = a.reshaped({3, 2});
  EXPECT_EQ(b.data(), a.data());
  EXPECT_EQ(load_int(b)[4], 7);
  EXPECT_EQ(b.shape(), (Sizes{3, 2}));
  EXPECT_THROW(a.reshaped({5}), Error);
}

TEST(Arrays, WithoutElementsOrAxesWork) {
  EXPECT_EQ(Array().size(), 0);
  EXPECT_TRUE(load_double(Array()).empty());
  EXPECT_TRUE(load_double(Array(DType::f16, {0, 3})).empty());
  EXPECT_EQ(cast(Array(DType::f16, {0, 3}), DType::i8).shape(), (Sizes{0, 3}));
  EXPECT_EQ(Array(DType::f32, {}).size(), 1);
  EXPECT_EQ(load_double(Array::scalar(DType::bf16, 2.5)), std::vector<double>{2.5});
  EXPECT_EQ(load_int(Array::scalar(DType::i64, int64_t{INT64_MAX})), std::vector<int64_t>{INT64_MAX});
}

TEST(Arrays, AreNotWrittenThroughViews) {
  const float values[2] = {1, 2};
  Array view(DType::f32, {2}, values, nullptr);
  EXPECT_EQ(load_double(view), (std::vector<double>{1, 2}));
  EXPECT_THROW(view.mutable_data(), Error);
}

template <class Run> ErrorCode error_of(const Run& run) {
  try {
    run();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::internal;
}

TEST(Arrays, AreReadInTheTypeOfTheirDTypeOnly) {
  const Array floats(DType::f32, {2}), ids(DType::i64, {2}), flags(DType::boolean, {2}), halves(DType::bf16, {2});
  EXPECT_EQ(floats.as<float>(), floats.data());
  EXPECT_EQ(ids.as<int64_t>(), ids.data());
  EXPECT_EQ(flags.as<bool>(), flags.data());
  EXPECT_EQ(flags.as<uint8_t>(), flags.data());
  EXPECT_EQ(halves.as<uint16_t>(), halves.data());
  EXPECT_EQ(halves.as<char>(), halves.data()) << "bytes of any dtype";
  EXPECT_EQ(error_of([&] { floats.as<double>(); }), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { floats.as<int32_t>(); }), ErrorCode::usage) << "of the same size";
  EXPECT_EQ(error_of([&] { ids.as<int32_t>(); }), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { halves.as<float>(); }), ErrorCode::usage);
  Array owned(DType::f32, {2});
  EXPECT_EQ(error_of([&] { owned.mutable_as<int64_t>(); }), ErrorCode::usage);
}

TEST(Arrays, SayThatAMistakeIsTheCallers) {
  const Array a(DType::f32, {2, 3});
  EXPECT_EQ(error_of([&] { a.reshaped({4}); }), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { store(DType::f32, {3}, std::vector<double>{1, 2}); }), ErrorCode::usage);
  const float values[2] = {1, 2};
  Array view(DType::f32, {2}, values, nullptr);
  EXPECT_EQ(error_of([&] { view.mutable_data(); }), ErrorCode::usage);
  EXPECT_EQ(error_of([&] { element_count({-1}); }), ErrorCode::bad_input);
}

TEST(Arrays, RefuseShapesThatAreTooLarge) {
  const int64_t big = int64_t{1} << 62;
  for (const Sizes& shape : {Sizes{big, 2}, Sizes{-1}, Sizes{0, big, 2}, Sizes{big}, Sizes{int64_t{1} << 46}})
    EXPECT_THROW(Array(DType::f64, shape), Error) << to_string(shape);
  EXPECT_EQ(element_count({0, big}), 0);
  EXPECT_EQ(element_count({}), 1);
}

TEST(Arrays, CompareBitByBit) {
  const Array zero = Array::scalar(DType::f32, 0.0);
  EXPECT_TRUE(zero.same_bytes(Array(DType::f32, {})));
  EXPECT_FALSE(zero.same_bytes(Array::scalar(DType::f32, -0.0)));
  EXPECT_FALSE(zero.same_bytes(Array(DType::i32, {})));
  EXPECT_FALSE(zero.same_bytes(Array(DType::f32, {1})));
  EXPECT_TRUE(Array::scalar(DType::f32, kNaN).same_bytes(Array::scalar(DType::f32, kNaN)));
}

TEST(Conversions, RoundTripEveryDType) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto d = static_cast<DType>(i);
    const std::vector<double> values = d == DType::boolean ? std::vector<double>{0, 1, 1} : std::vector<double>{0, 1, 100};
    const Array a = store(d, {3}, values);
    EXPECT_EQ(load_double(a), values) << name_of(d);
    EXPECT_EQ(load_int(a), std::vector<int64_t>(values.begin(), values.end())) << name_of(d);
    EXPECT_EQ(load_complex(a), std::vector<Complex>(values.begin(), values.end())) << name_of(d);
    EXPECT_TRUE(store(d, {3}, load_int(a)).same_bytes(a)) << name_of(d);
    EXPECT_TRUE(store(d, {3}, load_complex(a)).same_bytes(a)) << name_of(d);
    for (int j = 0; j < kDTypeCount; ++j) {
      const Array b = cast(a, static_cast<DType>(j));
      EXPECT_EQ(b.dtype(), static_cast<DType>(j));
      if (static_cast<DType>(j) != DType::boolean) {
        EXPECT_EQ(load_double(b), values) << name_of(d) << " to " << name_of(static_cast<DType>(j));
      }
    }
  }
  EXPECT_THROW(store(DType::f32, {2}, std::vector<double>{1}), Error);
}

// What ONNX stores. Codes and values are those of the OCP and Graphcore formats.
TEST(Conversions, NarrowFloatsRoundOnceToNearestEven) {
  const auto code_of = [](DType d, double v) { return static_cast<uint8_t>(*store(d, {1}, std::vector<double>{v}).as<char>()); };
  const auto value_of = [](DType d, uint8_t code) { return load_double(Array(d, {1}, &code, nullptr)).at(0); };
  EXPECT_EQ(value_of(file_dtype::f8e4m3, 0x7e), 448);
  EXPECT_EQ(value_of(file_dtype::f8e4m3, 0x01), 0x1p-9);
  EXPECT_EQ(code_of(file_dtype::f8e4m3, 464.0), 0x7e);  // the tie goes to the even code
  EXPECT_EQ(code_of(file_dtype::f8e4m3, 465.0), 0x7f);  // NaN: there is no infinity
  EXPECT_EQ(code_of(file_dtype::f8e4m3, -0.0), 0x80);
  EXPECT_EQ(code_of(file_dtype::f8e4m3fnuz, -0.0), 0x00);
  EXPECT_EQ(value_of(file_dtype::f8e4m3fnuz, 0x7f), 240);
  EXPECT_TRUE(std::isnan(value_of(file_dtype::f8e4m3fnuz, 0x80)));
  EXPECT_EQ(value_of(file_dtype::f8e5m2, 0x7b), 57344);
  EXPECT_EQ(code_of(file_dtype::f8e5m2, kInfinity), 0x7c);
  EXPECT_EQ(code_of(file_dtype::f8e5m2fnuz, 1e6), 0x80);
  EXPECT_EQ(code_of(file_dtype::f4e2m1, 5.0), 0x06);  // between 4 and 6: even
  EXPECT_EQ(code_of(file_dtype::f4e2m1, -100.0), 0x0f);
  EXPECT_EQ(value_of(file_dtype::f8e8m0, 130), 8);
  for (const DType d :
       {file_dtype::f8e4m3, file_dtype::f8e4m3fnuz, file_dtype::f8e5m2, file_dtype::f8e5m2fnuz, file_dtype::f4e2m1}) {
    for (int code = 0; code < (d == file_dtype::f4e2m1 ? 16 : 256); ++code) {
      const double v = value_of(d, static_cast<uint8_t>(code));
      if (!std::isnan(v)) {
        EXPECT_EQ(code_of(d, v), code) << name_of(d) << " " << v;
      }
    }
  }
}

TEST(Conversions, IntegersOfFewBitsWrap) {
  const std::vector<int64_t> values = {7, 8, -9, 16, 3};
  EXPECT_EQ(load_int(store(file_dtype::i4, {5}, values)), (std::vector<int64_t>{7, -8, 7, 0, 3}));
  EXPECT_EQ(load_int(store(file_dtype::u4, {5}, values)), (std::vector<int64_t>{7, 8, 7, 0, 3}));
  EXPECT_EQ(load_int(store(file_dtype::i2, {5}, values)), (std::vector<int64_t>{-1, 0, -1, 0, -1}));
  EXPECT_EQ(load_int(store(file_dtype::u16, {2}, std::vector<int64_t>{-1, 65537})), (std::vector<int64_t>{65535, 1}));
  EXPECT_EQ(load_double(store(file_dtype::u64, {1}, std::vector<double>{0x1.8p63})), std::vector<double>{0x1.8p63});
  EXPECT_EQ(load_double(store(file_dtype::u64, {1}, std::vector<int64_t>{-1})), std::vector<double>{0x1p64});
}

// Values seen with torch 2.11 on x86: torch.tensor([...], dtype=float64).to(dtype).
TEST(Conversions, OfFloatsThatDoNotFitAreTorchs) {
  const std::vector<double> values = {3e9, -3e9, 1e19, -1e19, kNaN, kInfinity, -1.5, 300.7, 70000, -70000.5, 0x1p40 + 5};
  const auto lowest64 = INT64_MIN;
  const int64_t lowest32 = INT32_MIN;
  const std::vector<std::pair<DType, std::vector<int64_t>>> expected = {
      {DType::i64, {3000000000, -3000000000, lowest64, lowest64, lowest64, lowest64, -1, 300, 70000, -70000, 1099511627781}},
      {DType::i32, {lowest32, lowest32, lowest32, lowest32, lowest32, lowest32, -1, 300, 70000, -70000, lowest32}},
      {DType::i16, {0, 0, 0, 0, 0, 0, -1, 300, 4464, -4464, 0}},
      {DType::i8, {0, 0, 0, 0, 0, 0, -1, 44, 112, -112, 0}},
      {DType::u8, {0, 0, 0, 0, 0, 0, 255, 44, 112, 144, 5}},
      {DType::boolean, std::vector<int64_t>(11, 1)}};
  const Array source = store(DType::f64, {11}, values);
  for (const auto& [d, result] : expected) {
    EXPECT_EQ(load_int(cast(source, d)), result) << name_of(d);
    EXPECT_EQ(load_int(store(d, {11}, values)), result) << name_of(d);
  }
  EXPECT_EQ(load_int(source), expected[0].second);
}

TEST(Conversions, OfIntegersWrapAndRoundOnce) {
  EXPECT_EQ(load_int(store(DType::u8, {3}, std::vector<int64_t>{256, -1, 511})), (std::vector<int64_t>{0, 255, 255}));
  EXPECT_EQ(load_int(store(DType::i8, {2}, std::vector<int64_t>{128, -129})), (std::vector<int64_t>{-128, 127}));
  EXPECT_EQ(load_int(store(DType::i32, {1}, std::vector<int64_t>{int64_t{1} << 32 | 5})), (std::vector<int64_t>{5}));
  EXPECT_EQ(load_int(store(DType::boolean, {3}, std::vector<int64_t>{0, 256, -1})), (std::vector<int64_t>{0, 1, 1}));
  // Just above a tie of bf16: through a double it would look like the tie.
  const int64_t tie = (int64_t{1} << 62) + (int64_t{1} << 54);
  EXPECT_EQ(load_double(store(DType::bf16, {2}, std::vector<int64_t>{tie, tie + 1})),
            (std::vector<double>{0x1p62, 0x1p62 + 0x1p55}));
  EXPECT_EQ(load_double(store(DType::bf16, {2}, std::vector<int64_t>{-tie, -tie - 1})),
            (std::vector<double>{-0x1p62, -0x1p62 - 0x1p55}));
  EXPECT_EQ(load_double(store(DType::f32, {1}, std::vector<int64_t>{(int64_t{1} << 62) + (int64_t{1} << 38) + 1})),
            (std::vector<double>{0x1p62 + 0x1p39}));
  EXPECT_EQ(load_int(cast(store(DType::i64, {1}, std::vector<int64_t>{INT64_MAX}), DType::i32)), (std::vector<int64_t>{-1}));
}

TEST(Conversions, OfFloatsRoundOnce) {
  EXPECT_EQ(load_double(store(DType::f16, {3}, std::vector<double>{65519.99, 65520, 1e-8})),
            (std::vector<double>{65504, kInfinity, 0}));
  EXPECT_EQ(load_double(store(DType::f32, {2}, std::vector<double>{0.1, 1e300})),
            (std::vector<double>{static_cast<double>(0.1F), kInfinity}));
  EXPECT_TRUE(std::isnan(load_double(store(DType::bf16, {1}, std::vector<double>{kNaN}))[0]));
  EXPECT_EQ(load_int(store(DType::f32, {2}, std::vector<double>{-2.9, 2.9})), (std::vector<int64_t>{-2, 2}));
}

TEST(Conversions, OfComplexNumbersTakeTheRealPart) {
  const std::vector<Complex> values = {{1, 2}, {0, 1}, {0, 0}};
  EXPECT_EQ(load_double(store(DType::f32, {3}, values)), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(load_int(store(DType::boolean, {3}, values)), (std::vector<int64_t>{1, 1, 0}));
  const Array a = store(DType::c64, {3}, values);
  EXPECT_EQ(load_complex(a), values);
  EXPECT_EQ(load_double(a), (std::vector<double>{1, 0, 0}));
  EXPECT_EQ(load_int(cast(a, DType::boolean)), (std::vector<int64_t>{1, 1, 0}));
  EXPECT_EQ(load_int(cast(a, DType::i8)), (std::vector<int64_t>{1, 0, 0}));
  EXPECT_EQ(load_complex(cast(a, DType::c128)), values);
}

TEST(Conversions, OfLongArraysReachEveryElement) {
  std::vector<double> values(5001);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 2000);
  const Array a = store(DType::f32, {5001}, values);
  EXPECT_EQ(load_double(cast(cast(a, DType::i16), DType::f16)), values);
}

TEST(Strides, AreRowMajor) {
  EXPECT_EQ(row_major_strides({2, 3, 4}), (Sizes{12, 4, 1}));
  EXPECT_EQ(row_major_strides({}), Sizes{});
  EXPECT_EQ(permuted({12, 4, 1}, {2, 0, 1}), (Sizes{1, 12, 4}));
}

TEST(Strides, WalkSeveralViewsAtOnce) {
  // [2, 3] beside its transpose and a broadcast row
  std::vector<std::array<int64_t, 4>> seen;
  for_each_offset<3>({2, 3}, {Sizes{3, 1}, Sizes{1, 2}, Sizes{0, 1}},
                     [&](int64_t i, const std::array<int64_t, 3>& at) { seen.push_back({i, at[0], at[1], at[2]}); }, {0, 10, 0});
  EXPECT_EQ(seen, (std::vector<std::array<int64_t, 4>>{
                      {0, 0, 10, 0}, {1, 1, 12, 1}, {2, 2, 14, 2}, {3, 3, 11, 0}, {4, 4, 13, 1}, {5, 5, 15, 2}}));
}

TEST(Strides, WalkAnyShapeInOrder) {
  for (const Sizes& shape : {Sizes{}, Sizes{5}, Sizes{2, 3, 4, 1, 2}, Sizes{1, 1}, Sizes{3, 0, 2}, Sizes{0}}) {
    std::vector<int64_t> offsets, expected;
    for_each_offset(shape, row_major_strides(shape), [&](int64_t i, int64_t at) {
      EXPECT_EQ(i, at);
      offsets.push_back(at);
    });
    for (IndexWalk w(shape); !w.done(); w.next()) {
      EXPECT_EQ(w.offset(row_major_strides(shape)), w.position());
      expected.push_back(w.position());
    }
    EXPECT_EQ(offsets, expected) << to_string(shape);
    EXPECT_EQ(static_cast<int64_t>(offsets.size()), element_count(shape));
  }
}

}  // namespace
}  // namespace pycandle
