#include "base/threads.h"

#include <algorithm>
#include <charconv>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "base/error.h"

namespace pycandle {

namespace {

thread_local bool inside_body = false;

struct Job {
  const std::function<void(int64_t, int64_t)>& body;
  int64_t count, length, chunks;
  // The rest is guarded by the pool's mutex.
  int64_t next = 0, finished = 0;
  std::exception_ptr failure;
};

class Pool {
 public:
  // Never destroyed: a thread may still wait when the process ends.
  static Pool& instance() {
    static Pool* pool = new Pool;
    return *pool;
  }

  void run(Job& job) {
    std::unique_lock lock(mutex_);
    start_threads();
    jobs_.push_back(&job);
    work_.notify_all();
    // The caller works too, so a job ends even when no other thread is free (or alive, after a fork).
    while (job.next < job.chunks) run_one(job, lock);
    done_.wait(lock, [&] { return job.finished == job.chunks; });
  }

 private:
  // Called with the lock held, which is let go while the body runs.
  void run_one(Job& job, std::unique_lock<std::mutex>& lock) {
    const int64_t chunk = job.next++;
    if (job.next == job.chunks) std::erase(jobs_, &job);  // nothing left to hand out
    const bool skip = job.failure != nullptr;
    lock.unlock();
    std::exception_ptr failure;
    if (!skip) {
      inside_body = true;
      try {
        const int64_t begin = chunk * job.length;
        job.body(begin, std::min(job.count, begin + job.length));
      } catch (...) {
        failure = std::current_exception();
      }
      inside_body = false;
    }
    lock.lock();
    if (failure && !job.failure) job.failure = failure;
    if (++job.finished == job.chunks) done_.notify_all();
  }

  void start_threads() {
    if (started_) return;
    started_ = true;
    for (int i = 1; i < thread_count(); ++i) {
      try {
        std::thread([this] { work(); }).detach();
      } catch (const std::system_error&) {
        return;  // fewer threads than wished for
      }
    }
  }

  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      work_.wait(lock, [&] { return !jobs_.empty(); });
      run_one(*jobs_.front(), lock);
    }
  }

  std::mutex mutex_;
  std::condition_variable work_, done_;
  std::deque<Job*> jobs_;  // those with chunks that nobody has taken
  bool started_ = false;
};

int wanted_threads() {
  const char* wish = std::getenv("PYCANDLE_THREADS");
  if (wish == nullptr || *wish == '\0') return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 256u));
  int value = 0;
  const auto [end, error] = std::from_chars(wish, wish + std::strlen(wish), value);
  if (error != std::errc() || *end != '\0' || value < 1 || value > 1024)
    throw Error(ErrorCode::usage, "PYCANDLE_THREADS is not a number of threads").expected("1 to 1024").found(wish);
  return value;
}

}  // namespace

int thread_count() {
  static const int count = wanted_threads();
  return count;
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
  Job job{body, count, length, count / length + (count % length != 0 ? 1 : 0), 0, 0, nullptr};
  Pool::instance().run(job);
  if (job.failure) std::rethrow_exception(job.failure);
}

}  // namespace pycandle
