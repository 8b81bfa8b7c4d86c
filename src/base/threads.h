// One pool of threads for the process, started when it is first needed.
#pragma once

#include <cstdint>
#include <functional>

namespace pycandle {

inline constexpr int kMostThreads = 1024;

// PYCANDLE_THREADS, or what the machine has. Throws usage when the variable is not a positive number.
int thread_count();

// Calls body(begin, end) for ranges that together are [0, count), each at least `grain` long (but the last), on several
// threads; the ranges depend on count, grain and thread_count() only. Returns when all are done; the first exception is
// thrown again here. A call from within a body runs inline. May be called from several threads at once.
void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

}  // namespace pycandle
