#include "verify/judging/difference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/png.h"
#include "verify/judging/metrics.h"

namespace pycandle {
namespace {

constexpr double kMissing = std::numeric_limits<double>::infinity();  // a number on one side only

double difference(double got, double expected) {
  if (same_number(got, expected)) return 0;
  const double apart = std::abs(got - expected);
  return std::isfinite(apart) ? apart : kMissing;
}

class Decades {
 public:
  void add(double v) {
    static const std::array<double, kHighest - kLowest> kEnds = [] {  // where the next decade begins
      std::array<double, kHighest - kLowest> ends{};
      for (int i = 0; i < kHighest - kLowest; ++i) ends[static_cast<size_t>(i)] = std::pow(10.0, kLowest + 1 + i);
      return ends;
    }();
    ++counts_[static_cast<size_t>(std::upper_bound(kEnds.begin(), kEnds.end(), v) - kEnds.begin())];
  }
  void write(DifferencePicture& picture) const {
    const auto is_some = [](int64_t n) { return n > 0; };
    const auto first = std::find_if(counts_.begin(), counts_.end(), is_some);
    const auto last = std::find_if(counts_.rbegin(), counts_.rend(), is_some).base();
    if (first >= last) return;
    picture.first_decade = static_cast<int>(first - counts_.begin()) + kLowest;
    picture.decades.assign(first, last);
  }

 private:
  static constexpr int kLowest = -40, kHighest = 20;
  std::array<int64_t, kHighest - kLowest + 1> counts_{};
};

char letter(double apart, double largest) {
  if (apart == 0) return '.';
  if (apart == kMissing) return '!';
  return static_cast<char>('z' - std::clamp(std::ilogb(largest) - std::ilogb(apart), 0, 25));
}

}  // namespace

DifferencePicture picture_of_difference(const Array& got, const Array& expected, PictureSize most) {
  DifferencePicture picture;
  if (got.shape() != expected.shape() || got.dtype() != expected.dtype() || got.size() == 0) return picture;
  const std::vector<double> g = as_reals(got), e = as_reals(expected);
  const int64_t parts = is_complex(got.dtype()) ? 2 : 1;
  const int64_t width = got.shape().empty() ? 1 : got.shape().back(), height = got.size() / width;
  picture.rows = std::min(most.rows, height);
  picture.columns = std::min(most.columns, width);
  std::vector<double> cells(static_cast<size_t>(picture.rows * picture.columns));
  Decades decades;
  size_t i = 0;
  for (int64_t row = 0; row < height; ++row) {
    double* line = &cells[static_cast<size_t>(row * picture.rows / height * picture.columns)];
    for (int64_t column = 0; column < width; ++column) {
      double apart = 0;
      for (int64_t part = 0; part < parts; ++part, ++i) apart = std::max(apart, difference(g[i], e[i]));
      if (apart == 0) continue;
      double& cell = line[column * picture.columns / width];
      cell = std::max(cell, apart);
      if (apart == kMissing) continue;
      picture.largest = std::max(picture.largest, apart);
      decades.add(apart);
    }
  }
  if (std::all_of(cells.begin(), cells.end(), [](double v) { return v == 0; })) return {};
  for (const double apart : cells) picture.cells += letter(apart, picture.largest);
  decades.write(picture);
  return picture;
}

Colour heat_colour(double share) {
  // From violet through red and orange to pale yellow; web/src/heat.ts and python/pycandle/dashboard/heat.py have the same.
  static constexpr Colour kStops[] = {{59, 15, 112}, {140, 41, 129}, {222, 73, 104}, {254, 159, 109}, {252, 253, 191}};
  constexpr double kLast = std::size(kStops) - 1;
  const double at = std::clamp(share, 0.0, 1.0) * kLast;
  const auto i = static_cast<size_t>(std::min(at, kLast - 1));
  const double rest = at - static_cast<double>(i);
  const auto mix = [&](unsigned char a, unsigned char b) { return static_cast<unsigned char>(std::lround(a + (b - a) * rest)); };
  const Colour &a = kStops[i], &b = kStops[i + 1];
  return {mix(a.red, b.red), mix(a.green, b.green), mix(a.blue, b.blue)};
}

Colour cell_colour(char cell) {
  if (cell == '.') return {24, 24, 27};
  if (cell == '!') return {0, 190, 255};
  return heat_colour((cell - 'a') / 25.0);
}

std::string difference_png(const DifferencePicture& picture) {
  constexpr int64_t kPixels = 512;
  const int64_t scale = std::clamp<int64_t>(kPixels / std::max(picture.rows, picture.columns), 2, 16);
  const int64_t width = picture.columns * scale, height = picture.rows * scale;
  std::string rgb;
  rgb.reserve(static_cast<size_t>(3 * width * height));
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      const Colour c = cell_colour(picture.cell(y / scale, x / scale));
      rgb += static_cast<char>(c.red);
      rgb += static_cast<char>(c.green);
      rgb += static_cast<char>(c.blue);
    }
  }
  return png_of(rgb, static_cast<uint32_t>(width), static_cast<uint32_t>(height));
}

}  // namespace pycandle
