// Brings the pages of weights into the process ahead of a run that reads them where they lie.
#pragma once

#include <atomic>
#include <thread>
#include <vector>

#include "base/array.h"

namespace pycandle::cpu {

// A mapped file costs a page fault for every few pages that are read for the first time: a third of a first call. A core that
// has nothing else to do takes them, array by array. Ends with the object.
class FetchAhead {
 public:
  explicit FetchAhead(std::vector<Array> in_order_of_use);
  ~FetchAhead();
  FetchAhead(const FetchAhead&) = delete;
  FetchAhead& operator=(const FetchAhead&) = delete;

 private:
  std::vector<Array> arrays_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace pycandle::cpu
