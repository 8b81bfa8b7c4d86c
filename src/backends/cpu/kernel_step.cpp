#include "backends/cpu/kernel_step.h"

#include <algorithm>

#include "base/parallel.h"

namespace pycandle::cpu {

int parts_for(int threads, int64_t units, double work) {
  constexpr double kWorthAThread = 64 * 1024;
  const double worth = std::max(1.0, work / kWorthAThread);
  return static_cast<int>(std::min<double>({static_cast<double>(threads), static_cast<double>(units), worth}));
}

void run_parts(int parts, FunctionRef<void(int part)> body) {
  if (parts <= 1) {
    body(0);
    return;
  }
  parallel_parts(parts, [&](int part) { body(part); });
}

}  // namespace pycandle::cpu
