#include "verify/judging/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace pycandle {
namespace {

Array floats(Sizes shape, const std::vector<float>& values) {
  Array a(DType::f32, std::move(shape));
  std::copy(values.begin(), values.end(), static_cast<float*>(a.mutable_data()));
  return a;
}

TEST(Difference, ACellIsTheLargestDifferenceInItAndALetterIsAFactorOfTwo) {
  const Array expected = floats({2, 4}, {0, 0, 0, 0, 0, 0, 0, 0});
  const Array got = floats({2, 4}, {0, 0, 8, 4, 1, 0, 0, 0});
  EXPECT_EQ(picture_of_difference(got, expected).cells, "..zyw...");
  const DifferencePicture coarse = picture_of_difference(got, expected, {2, 2});
  EXPECT_EQ(coarse.cells, ".zw.");
  EXPECT_EQ(coarse.rows, 2);
  EXPECT_EQ(coarse.columns, 2);
  EXPECT_DOUBLE_EQ(coarse.largest, 8);
}

TEST(Difference, ElementsAreCountedByPowersOfTen) {
  const Array expected = floats({6}, {0, 0, 0, 0, 0, 0});
  const Array got = floats({6}, {0, 0.002F, 0.5F, -0.9F, 1, 0.05F});
  const DifferencePicture picture = picture_of_difference(got, expected);
  EXPECT_EQ(picture.first_decade, -3);
  EXPECT_EQ(picture.decades, (std::vector<int64_t>{1, 1, 2, 1}));
}

TEST(Difference, ANumberOnOneSideOnlyIsMarkedAndNoSize) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  const DifferencePicture picture = picture_of_difference(floats({4}, {nan, nan, inf, 2}), floats({4}, {nan, 1, 1, 1}));
  EXPECT_EQ(picture.cells, ".!!z");
  EXPECT_DOUBLE_EQ(picture.largest, 1);
  EXPECT_EQ(picture.decades, std::vector<int64_t>{1});
}

TEST(Difference, EqualValuesOtherSizesAndNothingHaveNoPicture) {
  const Array a = floats({2}, {1, 2});
  EXPECT_TRUE(picture_of_difference(a, a).empty());
  EXPECT_TRUE(picture_of_difference(a, floats({1}, {1})).empty());
  EXPECT_TRUE(picture_of_difference(floats({0, 3}, {}), floats({0, 3}, {})).empty());
  EXPECT_EQ(picture_of_difference(floats({}, {1}), floats({}, {2})).cells, "z");
}

TEST(Difference, AComplexElementIsOneCell) {
  Array a(DType::c64, {2}), b(DType::c64, {2});
  auto* x = static_cast<float*>(a.mutable_data());
  auto* y = static_cast<float*>(b.mutable_data());
  for (int i = 0; i < 4; ++i) x[i] = y[i] = 1;
  x[3] = 2;
  EXPECT_EQ(picture_of_difference(a, b).cells, ".z");
}

TEST(Difference, ThePngHasItsSizeAndColours) {
  const std::string png = difference_png(picture_of_difference(floats({1, 2}, {0, 1}), floats({1, 2}, {0, 0})));
  EXPECT_EQ(png.substr(1, 3), "PNG");
  EXPECT_EQ(png.substr(16, 8), std::string("\0\0\0\x20\0\0\0\x10", 8));  // 32 × 16: two cells of 16
  const Colour low = heat_colour(0), high = heat_colour(1);
  EXPECT_LT(low.red + low.green + low.blue, high.red + high.green + high.blue);
}

}  // namespace
}  // namespace pycandle
