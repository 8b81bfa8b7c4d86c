#include "base/threads.h"

#include <fmt/format.h>
#include <pthread.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"

namespace pycandle {

namespace {

// How long a thread waits actively: longer than the gap between two kernels, shorter than it takes to notice a neighbour.
constexpr auto kPatience = std::chrono::microseconds(60);

thread_local bool inside_body = false;

struct Inside {
  bool before = std::exchange(inside_body, true);
  ~Inside() { inside_body = before; }
};

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// True when `ready` came to hold within the patience.
template <class Ready> bool spin_until(const Ready& ready) {
  if (ready()) return true;
  const auto start = std::chrono::steady_clock::now();
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      relax();
      if (ready()) return true;
    }
    if (std::chrono::steady_clock::now() - start > kPatience) return ready();
  }
}

// Waits actively for a while, then asleep. Whoever makes `ready` true calls wake_all with the same three afterwards.
template <class Ready>
void wait_until(const Ready& ready, std::atomic<int>& sleepers, std::mutex& mutex, std::condition_variable& wake) {
  if (spin_until(ready)) return;
  std::unique_lock lock(mutex);
  ++sleepers;  // seq_cst, as the change that is waited for and the look at it in wake_all: one of the two sides sees the other
  wake.wait(lock, ready);
  --sleepers;
}

void wake_all(std::atomic<int>& sleepers, std::mutex& mutex, std::condition_variable& wake) {
  if (sleepers == 0) return;
  const std::lock_guard lock(mutex);
  wake.notify_all();
}

// One job at a time. A part is taken by changing its claim from offered to taken; only who took a part looks at the job, and
// the job stays until all parts are done. So a thread that wakes late finds nothing to take and touches nothing.
class Pool {
 public:
  // Never destroyed: a thread may still wait when the process ends.
  static Pool& instance() {
    static Pool* pool = [] {
      auto* p = new Pool;
      // The threads do not live on in a forked child: it starts its own when it needs them.
      ::pthread_atfork(nullptr, nullptr, [] { new (&Pool::instance()) Pool; });
      return p;
    }();
    return *pool;
  }

  // False when another host thread has the pool.
  bool try_run(int parts, FunctionRef<void(int)> body, bool may_steal) {
    if (busy_.exchange(true)) return false;
    start_threads(parts - 1);
    if (!may_steal && started_ < parts - 1) {
      busy_ = false;
      return false;
    }
    body_ = &body;
    remaining_ = parts;
    failure_ = nullptr;
    for (int p = 0; p < parts; ++p) claims_[p] = kOffered;
    ++round_;
    wake_all(sleepers_, mutex_, wake_);
    take(0);
    if (may_steal)
      for (int p = 1; p < parts; ++p) take(p);
    wait_until([&] { return remaining_ == 0; }, owner_sleeps_, done_mutex_, done_);
    const std::exception_ptr failure = failure_;
    busy_ = false;
    if (failure) std::rethrow_exception(failure);
    return true;
  }

  int threads_for(int parts) {
    if (busy_.exchange(true)) return 1;
    start_threads(parts - 1);
    const int threads = std::min(parts, started_ + 1);
    busy_ = false;
    return threads;
  }

 private:
  enum Claim : uint8_t { kTaken, kOffered };

  void take(int part) {
    uint8_t offered = kOffered;
    if (!claims_[part].compare_exchange_strong(offered, kTaken)) return;
    try {
      const Inside inside;
      (*body_)(part);
    } catch (...) {
      const std::lock_guard lock(failure_mutex_);
      if (!failure_) failure_ = std::current_exception();
    }
    if (--remaining_ == 0) wake_all(owner_sleeps_, done_mutex_, done_);
  }

  void start_threads(int wanted) {
    for (; started_ < wanted; ++started_) {
      try {
        std::thread([this, part = started_ + 1] { work(part); }).detach();
      } catch (const std::system_error&) {
        return;  // fewer threads than wished for
      }
    }
  }

  void work(int part) {
    for (uint64_t seen = 0;;) {
      wait_until([&] { return round_ != seen; }, sleepers_, mutex_, wake_);
      seen = round_;
      take(part);
    }
  }

  std::atomic<bool> busy_{false};
  int started_ = 0;  // as the next two, the owner's
  const FunctionRef<void(int)>* body_ = nullptr;
  std::exception_ptr failure_;
  std::mutex failure_mutex_;
  std::atomic<uint8_t> claims_[kMostThreads] = {};
  alignas(64) std::atomic<int> remaining_{0};
  alignas(64) std::atomic<uint64_t> round_{0};
  alignas(64) std::atomic<int> sleepers_{0};
  std::atomic<int> owner_sleeps_{0};
  std::mutex mutex_, done_mutex_;
  std::condition_variable wake_, done_;
};

int wanted_threads() {
  const char* wish = std::getenv("PYCANDLE_THREADS");
  if (wish == nullptr || *wish == '\0') return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 256u));
  int value = 0;
  const auto [end, error] = std::from_chars(wish, wish + std::strlen(wish), value);
  if (error != std::errc() || *end != '\0' || value < 1 || value > kMostThreads)
    throw Error(ErrorCode::usage, "PYCANDLE_THREADS is not a number of threads")
        .expected(fmt::format("1 to {}", kMostThreads))
        .found(wish);
  return value;
}

}  // namespace

int thread_count() {
  static const int count = wanted_threads();
  return count;
}

void parallel_parts(int parts, FunctionRef<void(int)> body) {
  parts = std::max(parts, 0);
  if (parts > 1 && parts <= kMostThreads && !inside_body && Pool::instance().try_run(parts, body, true)) return;
  const Inside inside;
  for (int p = 0; p < parts; ++p) body(p);
}

void Team::barrier() {
  const uint32_t round = round_;
  if (++arrived_ == size_) {
    arrived_ = 0;
    ++round_;
    wake_all(sleepers_, mutex_, wake_);
  } else {
    wait_until([&] { return round_ != round; }, sleepers_, mutex_, wake_);
  }
}

void parallel_team(int wanted, FunctionRef<void(Team&, int)> body) {
  if (wanted > 1 && wanted <= kMostThreads && !inside_body) {
    Team team(Pool::instance().threads_for(wanted));
    if (team.size() > 1 && Pool::instance().try_run(team.size(), [&](int member) { body(team, member); }, false)) return;
  }
  Team alone(1);
  const Inside inside;
  body(alone, 0);
}

void parallel_for(int64_t count, int64_t grain, const std::function<void(int64_t, int64_t)>& body) {
  if (count <= 0) return;
  grain = std::max<int64_t>(grain, 1);
  const int64_t most = std::min<int64_t>(thread_count(), count / grain + (count % grain != 0 ? 1 : 0));
  if (most <= 1 || inside_body) {
    body(0, count);
    return;
  }
  const int64_t length = std::max(grain, count / most + (count % most != 0 ? 1 : 0));
  const auto parts = static_cast<int>(count / length + (count % length != 0 ? 1 : 0));
  parallel_parts(parts, [&](int part) { body(part * length, std::min(count, (part + 1) * length)); });
}

}  // namespace pycandle
