// Where all runs of this process write down their steps, for the profile of a command.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

#include "backends/backend.h"

namespace pycandle {

inline constexpr const char* kEvaluator = "evaluator";  // the kernel of a step that the reference computes

// Steps of the same kernel, op and layer are added up. Safe from several threads.
class StepLog {
 public:
  struct Sum {
    size_t times = 0;
    double seconds = 0, work = 0, bytes = 0;
  };
  using Key = std::tuple<std::string, std::string, std::string>;  // kernel, op, layer

  void add(const StepTime& step) {
    const std::lock_guard lock(mutex_);
    Sum& sum = sums_[{std::string(step.kernel), std::string(step.op), step.layer}];
    ++sum.times;
    sum.seconds += step.seconds;
    sum.work += step.work;
    sum.bytes += step.bytes;
  }
  std::map<Key, Sum> sums() const {
    const std::lock_guard lock(mutex_);
    return sums_;
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, Sum> sums_;
};

// Null: nobody asks, and no clock is read. Who sets it takes it away before the log is gone, when nothing runs.
inline std::atomic<StepLog*> active_step_log = nullptr;

}  // namespace pycandle
