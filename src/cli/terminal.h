// Text for a person: colours and progress only on a terminal, columns that line up.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>
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

// Rows of cells; columns are as wide as their widest cell. Cells may be styled.
class Table {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  // Where it does not fit the terminal, columns are left out in the order of `dispensable`, then the first one, which must
  // not be styled, is shortened.
  std::string text(const std::string& indent = "  ", const std::vector<size_t>& dispensable = {}) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// Says on stderr how far something is, once it has taken two seconds; rewrites its line on a terminal.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  ~Progress();
  void update(size_t done, size_t total);
  double seconds() const;

 private:
  std::string what_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), last_ = start_;
  bool shown_ = false;
};

std::string human_bytes(double);   // 124 kB, 1.3 GB
std::string human_count(double);   // 124.4 M
std::string short_number(double);  // 2.1e-07, 0

}  // namespace pycandle::cli
