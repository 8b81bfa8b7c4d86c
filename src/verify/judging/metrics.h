// How far two arrays of one type are from each other, in the ways people ask for.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "base/array.h"

namespace pycandle {

// Distances in units in the last place: bucket 0 counts equal elements, bucket k those 2^(k-1) up to 2^k - 1 apart, the
// last one all that are further apart.
inline constexpr size_t kUlpBuckets = 13;
using UlpHistogram = std::array<int64_t, kUlpBuckets>;

struct Metrics {
  double max_abs = 0, rms = 0, mse = 0, cosine = 1;
  double max_rel = 0;                    // to |expected|, or to a thousandth of its RMS where it is smaller than that
  int64_t differing = 0;                 // elements that are not equal
  int64_t nan_mismatches = 0;            // NaN or infinity on one side only, or infinities of different sign
  int64_t first_difference = -1;         // flat index; coordinates_of() says where that is
  int64_t first_nan_mismatch = -1;
  int64_t largest_difference = -1;       // where max_abs is
  UlpHistogram ulps{};                   // floats; complex numbers by their parts
};
Metrics compare(const Array& got, const Array& expected);
// The same; where data decided for other sizes, no element is right.
Metrics compare_with_sizes(const Array& got, const Array& expected);
inline bool has_other_sizes(const Metrics& m) { return m.differing > 0 && m.first_difference < 0; }

// 7 in [2, 4] is [1, 3]; empty for -1.
Sizes coordinates_of(int64_t flat_index, const Sizes& shape);
// Representable numbers of the dtype between two of them, as rounded to it; -1 when one is NaN and the other is not.
int64_t ulp_distance(double, double, DType);

// The numbers of an array; complex ones as two.
std::vector<double> as_reals(const Array&);
double root_mean_square(const std::vector<double>&);  // of those that are finite
bool same_number(double, double);                      // NaN is NaN

}  // namespace pycandle
