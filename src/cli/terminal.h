// Text for a person: colours and progress only on a terminal, columns that line up.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace pycandle::cli {

enum class Style { plain, bold, dim, green, yellow, red };
std::string styled(const std::string& text, Style);  // as it is when stdout is not a terminal or NO_COLOR is set

// Rows of cells; columns are as wide as their widest cell. Cells may be styled.
class Table {
 public:
  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }
  std::string text(const std::string& indent = "  ") const;

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
