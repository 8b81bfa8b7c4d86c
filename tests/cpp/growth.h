// Does the cost of something grow in proportion to its size? Independent of how fast the machine is.
#pragma once

#include <algorithm>
#include <ctime>

namespace pycandle {

// How many times the processor time of `run(4 * size)` is that of `run(size)`: about 4 when linear, 16 when quadratic.
// The least of several tries: what else the machine does can only make a run slower.
template <class Run> double growth_of_four_times(const Run& run, int size) {
  const auto seconds = [&](int n) {
    const std::clock_t start = std::clock();
    run(n);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  double small = 1e9, large = 1e9;
  for (int turn = 0; turn < 3; ++turn) {
    small = std::min(small, seconds(size));
    large = std::min(large, seconds(4 * size));
    if (large < 8 * small) break;
  }
  return large / small;
}

}  // namespace pycandle
