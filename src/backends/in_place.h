// What an executable may offer beside backend.h, for those who step through a program with large states: runs that write what is
// added to a state where it lies, and runs that are made again and again.
#pragma once

#include <memory>
#include <vector>

#include "backends/backend.h"

namespace pycandle {

// A run over the same arrays each time; their owner changes the elements in between.
class RepeatedRun {
 public:
  virtual ~RepeatedRun() = default;
  virtual const std::vector<Array>& run() = 0;  // the outputs, in memory that the next run writes over
};

class RunsInPlace {
 public:
  virtual ~RunsInPlace() = default;
  // As Executable::run, but the memory of request.states is the caller's alone and may be written. When a run throws, places
  // that it would have written may have changed.
  virtual std::vector<Array> run_in_place(const RunRequest&) const = 0;
  // Without taps. The executable and request.states must live as long. Nothing is allocated by a run whose steps are kernels.
  virtual std::unique_ptr<RepeatedRun> repeated(RunRequest) const = 0;
};

}  // namespace pycandle
