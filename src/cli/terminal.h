// Text for a person: colours and progress only on a terminal, columns that line up.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace pycandle::cli {

enum class Style { plain, bold, dim, green, yellow, red };
std::string styled(const std::string& text, Style);  // as it is when stdout is not a terminal or NO_COLOR is set

// Columns of the terminal. Output that goes into a file or a pipe has no limit.
size_t terminal_width();
// The text with line breaks so that it fits; lines after the first begin with `indent` spaces, the first has `used` columns.
std::string wrapped(const std::string& text, size_t indent, size_t used);
// The middle gives way to "…".
std::string shortened(const std::string& text, size_t columns);

// Rows of cells; columns are as wide as their widest cell. Cells may be styled; any other control character in one, as a name
// from a file may have, is shown as '?'.
class Table {
 public:
  void row(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Where it does not fit the terminal, columns are left out in the order of `dispensable`, then the first one, which must
  // not be styled, is shortened, and the last one is wrapped below itself.
  std::string text(const std::string& indent = "  ", const std::vector<size_t>& dispensable = {}) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Says on stderr how far something is and how long it may still take, once it has taken two seconds. On a terminal one line
// that is rewritten, also while nothing is reported; in a log a line every ten seconds.
class Progress {
 public:
  explicit Progress(std::string what);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void update(size_t done, size_t total);  // from any thread
  void stage(std::string what);            // what comes next, counted from its own start
  void finish();                           // takes the line away: before results are printed
  double seconds() const;                  // since the beginning

 private:
  using Clock = std::chrono::steady_clock;
  void run();
  void show(Clock::time_point now);

  const Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::string what_;
  Clock::time_point stage_ = start_;
  size_t done_ = 0, total_ = 0;
  bool shown_ = false, finished_ = false;
  std::thread thread_;
};

// "verify: 40 of 163, 3 s, about 9 s left"; how long is left is known once something is done.
std::string progress_line(const std::string& what, size_t done, size_t total, double seconds);

std::string human_bytes(double);   // 124 kB, 1.3 GB
std::string human_count(double);   // 124.4 M
std::string human_flops(double);   // 53.7 MFLOP
std::string short_number(double);  // 2.1e-07, 0

}  // namespace pycandle::cli
