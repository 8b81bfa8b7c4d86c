#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/threads.h"

namespace pycandle {
namespace {

// Before anything asks for the number of threads.
const bool kFourThreads = ::setenv("PYCANDLE_THREADS", "4", 1) == 0;

TEST(Threads, AreAsManyAsAskedFor) {
  ASSERT_TRUE(kFourThreads);
  EXPECT_EQ(thread_count(), 4);
}

TEST(ParallelFor, VisitsEveryIndexOnce) {
  for (const int64_t count : {0, 1, 3, 4, 5, 1000, 1023}) {
    for (const int64_t grain : {0, 1, 7, 300, 5000}) {
      std::vector<std::atomic<int>> visits(static_cast<size_t>(count));
      parallel_for(count, grain, [&](int64_t begin, int64_t end) {
        EXPECT_LT(begin, end);
        if (end != count) {
          EXPECT_GE(end - begin, grain);
        }
        for (int64_t i = begin; i < end; ++i) ++visits[static_cast<size_t>(i)];
      });
      for (const auto& v : visits) ASSERT_EQ(v, 1);
    }
  }
}

TEST(ParallelFor, SplitsTheSameWayEveryTime) {
  const auto ranges = [] {
    std::mutex mutex;
    std::set<std::pair<int64_t, int64_t>> out;
    parallel_for(1000, 10, [&](int64_t begin, int64_t end) {
      const std::lock_guard lock(mutex);
      out.emplace(begin, end);
    });
    return out;
  };
  EXPECT_EQ(ranges().size(), 4u);
  EXPECT_EQ(ranges(), ranges());
}

TEST(ParallelFor, ReallyUsesSeveralThreads) {
  std::atomic<int> waiting{0};
  parallel_for(4, 1, [&](int64_t, int64_t) {
    ++waiting;
    while (waiting < 4) std::this_thread::yield();  // ends only when all four run at once
  });
  EXPECT_EQ(waiting, 4);
}

TEST(ParallelFor, ThrowsWhatABodyThrewAndWorksAfterwards) {
  for (int i = 0; i < 20; ++i) {
    EXPECT_THROW(parallel_for(100, 1,
                              [](int64_t begin, int64_t) {
                                if (begin >= 25) throw std::runtime_error("no");
                              }),
                 std::runtime_error);
    std::atomic<int64_t> sum{0};
    parallel_for(100, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
    EXPECT_EQ(sum, 100);
  }
}

TEST(ParallelFor, InsideItselfRunsInline) {
  std::atomic<int64_t> sum{0};
  parallel_for(8, 1, [&](int64_t begin, int64_t end) {
    const auto outer = std::this_thread::get_id();
    for (int64_t i = begin; i < end; ++i)
      parallel_for(100, 1, [&](int64_t b, int64_t e) {
        EXPECT_EQ(std::this_thread::get_id(), outer);
        sum += e - b;
      });
  });
  EXPECT_EQ(sum, 800);
}

TEST(ParallelFor, MayBeCalledFromSeveralThreads) {
  std::atomic<int64_t> sum{0};
  std::vector<std::thread> hosts;
  for (int h = 0; h < 4; ++h)
    hosts.emplace_back([&] {
      for (int i = 0; i < 200; ++i) parallel_for(64, 1, [&](int64_t b, int64_t e) { sum += e - b; });
    });
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(sum, 4 * 200 * 64);
}

}  // namespace
}  // namespace pycandle
