#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "base/parallel.h"
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
        for (int64_t i = begin; i < end; ++i) ++visits[i];
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

TEST(ParallelParts, RunsEveryPartOnceAlsoWhenThereAreMoreThanThreads) {
  for (const int parts : {0, 1, 2, 3, 9, 40}) {
    std::vector<std::atomic<int>> visits(static_cast<size_t>(parts));
    for (int i = 0; i < 50; ++i) parallel_parts(parts, [&](int part) { ++visits[part]; });
    for (const auto& v : visits) ASSERT_EQ(v, 50);
  }
}

TEST(ParallelParts, WakesThreadsThatHaveFallenAsleep) {
  for (int i = 0; i < 20; ++i) {
    std::atomic<int> waiting{0};
    parallel_parts(3, [&](int) {
      ++waiting;
      while (waiting < 3) std::this_thread::yield();
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

TEST(ParallelParts, WorksInAForkedChild) {
  parallel_parts(4, [](int) {});
  const pid_t child = ::fork();
  if (child == 0) {
    std::atomic<int> sum{0};
    parallel_parts(4, [&](int part) { sum += part; });
    ::_exit(sum == 6 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(ParallelParts, ManyHostsAndManyJobsDoNotMixThemUp) {
  std::vector<std::thread> hosts;
  std::atomic<int> wrong{0};
  for (int h = 0; h < 3; ++h)
    hosts.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        std::atomic<int> sum{0};
        const int parts = 1 + i % 5;
        parallel_parts(parts, [&](int part) { sum += part + 1; });
        if (sum != parts * (parts + 1) / 2) ++wrong;
      }
    });
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ParallelTeam, MembersWaitForEachOther) {
  std::vector<int> written(4, -1);
  std::atomic<int> wrong{0}, rounds{0};
  parallel_team(4, [&](Team& team, int member) {
    for (int round = 0; round < 100; ++round) {
      written[member] = round;
      team.barrier();
      for (int other = 0; other < team.size(); ++other) {
        if (written[other] != round) ++wrong;
      }
      team.barrier();
    }
    ++rounds;
  });
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(rounds, 4);
}

TEST(ParallelTeam, IsAloneInsideABody) {
  std::atomic<int> members{0};
  parallel_parts(2, [&](int) { parallel_team(3, [&](Team& team, int) { members += team.size(); }); });
  EXPECT_EQ(members, 2);
}

}  // namespace
}  // namespace pycandle
