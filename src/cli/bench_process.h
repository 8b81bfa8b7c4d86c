// A runner of a benchmark is a process of its own. It loads a model, runs it once, writes the outputs and answers with one
// line of JSON: {"version", "imported", "loaded", "first"}, moments of the monotonic clock in seconds. Then it answers each
// line with a number of milliseconds by the times of its runs within them, in milliseconds. docs/benchmarks.md says it in full.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.h"

namespace pycandle::cli {

double monotonic_seconds();

class RunnerProcess {
 public:
  // What it writes to its errors goes to `log`.
  RunnerProcess(const std::vector<std::string>& command, int threads, const std::filesystem::path& log);
  ~RunnerProcess();
  RunnerProcess(const RunnerProcess&) = delete;
  RunnerProcess& operator=(const RunnerProcess&) = delete;

  void ask(const std::string& line);
  Json answer();  // throws with the end of the log when it ended without one, and with its words when it refuses
  double started() const { return started_; }
  double peak_megabytes() const;  // of resident memory, until now

 private:
  [[noreturn]] void gone();
  std::string name_;
  std::filesystem::path log_;
  pid_t pid_ = -1;
  std::FILE *to_ = nullptr, *from_ = nullptr;
  double started_ = 0;
};

}  // namespace pycandle::cli
