// The process's pool of threads for those who cut their work themselves; nothing is allocated by a call. parallel_for of
// base/threads.h cuts a range over the same pool.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "base/function_ref.h"

namespace pycandle {

// Calls body(part) for every part of [0, parts), part p on the pool's pth thread (0 is the caller) unless that is late:
// then the caller takes it. Returns when all are done and throws what a body threw first. Within a body, or while
// another host thread has the pool, the caller does all parts itself, one after the other. Threads wait for work
// actively for some microseconds, then sleep.
void parallel_parts(int parts, FunctionRef<void(int part)> body);

// What the members of a team share.
class Team {
 public:
  explicit Team(int size) : size_(size) {}
  int size() const { return size_; }
  void barrier();  // returns when every member has called it

 private:
  int size_;
  std::atomic<int> arrived_{0};
  std::atomic<uint32_t> round_{0};
  std::atomic<int> sleepers_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

// Calls body(team, member) for every member at the same time, so that they can wait for each other. The team has at most
// `wanted` members; one only within a body or while another host thread has the pool. A body may not throw.
void parallel_team(int wanted, FunctionRef<void(Team& team, int member)> body);

// Where part p of `parts` begins when [0, count) is cut evenly.
inline int64_t part_of(int64_t count, int parts, int part) {
  return count / parts * part + std::min<int64_t>(part, count % parts);
}

}  // namespace pycandle
