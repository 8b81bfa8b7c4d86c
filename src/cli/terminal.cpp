#include "cli/terminal.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

#include "cli/colours.h"

namespace pycandle::cli {
namespace {

// Columns that a terminal shows: UTF-8 continuation bytes and escape sequences take none.
size_t width(const std::string& text) {
  size_t columns = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\033') {
      i = std::min(text.find('m', i), text.size() - 1);
    } else if ((static_cast<unsigned char>(text[i]) & 0xC0U) != 0x80U) {
      ++columns;
    }
  }
  return columns;
}

std::string human(double value, double step, const std::vector<const char*>& units) {
  size_t unit = 0;
  while (std::abs(value) >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  return unit == 0 ? fmt::format("{:.0f}{}", value, units[0]) : fmt::format("{:.1f}{}", value, units[unit]);
}

// 9 s, 3 min 20 s, 1 h 5 min
std::string duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::llround(std::min(seconds, 1e9)));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

// The length of what styled() writes in front of a text and behind it, "\033[31;1m"; 0 where no such thing begins.
size_t style_code(std::string_view text) {
  if (!has_colours() || !text.starts_with("\033[")) return 0;
  const size_t end = text.find_first_not_of("0123456789;", 2);
  return end != std::string_view::npos && text[end] == 'm' ? end + 1 : 0;
}

std::string printable(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (const size_t code = style_code(std::string_view(text).substr(i)); code > 0) {
      i += code - 1;
    } else if (static_cast<unsigned char>(text[i]) < ' ' || text[i] == '\x7f') {
      text[i] = '?';
    }
  }
  return text;
}

}  // namespace

bool has_colours() {
  static const bool on = [] {
    const char* refused = std::getenv("NO_COLOR");  // https://no-color.org: set and not empty
    return isatty(STDOUT_FILENO) != 0 && (refused == nullptr || *refused == '\0');
  }();
  return on;
}

std::string styled(const std::string& text, Style style) {
  if (!has_colours() || style == Style::plain) return text;
  static constexpr const char* kCodes[] = {"", "1", "2", "32", "33", "31;1"};
  return fmt::format("\033[{}m{}\033[0m", kCodes[static_cast<size_t>(style)], text);
}

size_t terminal_width() {
  winsize size{};
  const bool is_terminal = isatty(STDOUT_FILENO) != 0 && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
  return is_terminal && size.ws_col > 0 ? size.ws_col : std::numeric_limits<size_t>::max();
}

std::string wrapped(const std::string& text, size_t indent, size_t used) {
  constexpr size_t kLeastRoom = 16;
  const size_t limit = terminal_width();
  std::string out;
  for (size_t begin = 0; begin < text.size();) {
    const size_t space = text.find(' ', begin), end = space == std::string::npos ? text.size() : space + 1;
    const std::string word = text.substr(begin, end - begin);
    const size_t columns = width(word) - (space == std::string::npos ? 0 : 1);
    if (used + columns > limit && used > indent) {
      out.erase(out.find_last_not_of(' ') + 1);
      out += "\n" + std::string(indent, ' ');
      used = indent;
    }
    const size_t room = limit > indent + kLeastRoom ? limit - used : limit;
    if (columns > room) {  // longer than a line: a path
      out += word.substr(0, room) + "\n" + std::string(indent, ' ');
      used = indent;
      begin += room;
      continue;
    }
    out += word;
    used += width(word);
    begin = end;
  }
  return out;
}

std::string shortened(const std::string& text, size_t columns) {
  if (width(text) <= columns || columns < 3) return text;
  const auto is_continuation = [&](size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U; };
  size_t head = columns / 2, tail = text.size() - (columns - 1 - head);
  while (head > 0 && is_continuation(head)) --head;
  while (tail < text.size() && is_continuation(tail)) ++tail;
  return text.substr(0, head) + "…" + text.substr(tail);
}

void Table::row(std::vector<std::string> cells) {
  for (std::string& cell : cells) cell = printable(std::move(cell));
  rows_.push_back(std::move(cells));
}

std::string Table::text(const std::string& indent, const std::vector<size_t>& dispensable) const {
  std::vector<size_t> widths;
  for (const auto& row : rows_) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::vector<bool> is_shown(widths.size(), true);
  const auto total = [&] {
    size_t columns = width(indent);
    for (size_t i = 0; i < widths.size(); ++i) columns += is_shown[i] ? widths[i] + 2 : 0;
    return columns - std::min<size_t>(columns, 2);
  };
  const size_t limit = terminal_width();
  for (const size_t column : dispensable) {
    if (total() <= limit) break;
    if (column < is_shown.size()) is_shown[column] = false;
  }
  constexpr size_t kLeast = 12, kRoom = 20;
  const size_t excess = total() > limit ? total() - limit : 0;
  if (excess > 0 && !widths.empty()) widths[0] = widths[0] > excess + kLeast ? widths[0] - excess : std::min(widths[0], kLeast);
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent;
    size_t last = row.size();  // that says something
    while (last > 0 && (!is_shown[last - 1] || row[last - 1].empty())) --last;
    for (size_t i = 0; i < last; ++i) {
      if (!is_shown[i]) continue;
      const std::string cell = i == 0 && excess > 0 ? shortened(row[i], widths[i]) : row[i];
      const size_t used = width(line);
      const bool is_long = i + 1 == last && i > 0 && used + width(cell) > limit && used + kRoom <= limit;
      line += is_long ? wrapped(cell, used, used) : cell;
      if (i + 1 < last) line.append(widths[i] - std::min(widths[i], width(cell)) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

std::string progress_line(const std::string& what, size_t done, size_t total, double seconds) {
  std::string line = what + ": ";
  if (total > 0) line += fmt::format("{} of {}, ", done, total);
  line += duration(seconds);
  if (done > 0 && done < total) {
    const double left = seconds * static_cast<double>(total - done) / static_cast<double>(done);
    line += fmt::format(", about {} left", duration(left));
  }
  return line;
}

Progress::Progress(std::string what) : what_(std::move(what)), thread_([this] { run(); }) {}

double Progress::seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }

void Progress::update(size_t done, size_t total) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  total_ = total;
}

void Progress::stage(std::string what) {
  const std::lock_guard lock(mutex_);
  what_ = std::move(what);
  stage_ = Clock::now();
  done_ = total_ = 0;
}

void Progress::run() {
  using namespace std::chrono_literals;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  std::unique_lock lock(mutex_);
  for (auto next = start_ + (terminal ? 2000ms : 10000ms); !wake_.wait_until(lock, next, [&] { return finished_; });
       next += terminal ? 100ms : 10000ms)
    show(Clock::now());
}

void Progress::show(Clock::time_point now) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const std::string line = progress_line(what_, done_, total_, std::chrono::duration<double>(now - stage_).count());
  winsize size{};
  const bool is_narrow = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && width(line) >= size.ws_col;
  fmt::print(stderr, "{}{}{}", terminal ? "\r" : "", is_narrow ? shortened(line, size.ws_col - 1U) : line,
             terminal ? "\033[K" : "\n");
  std::fflush(stderr);
  shown_ = terminal;
}

void Progress::finish() {
  {
    const std::lock_guard lock(mutex_);
    finished_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (shown_) fmt::print(stderr, "\r\033[K");
  shown_ = false;
}

std::string human_bytes(double bytes) { return human(bytes, 1000, {" B", " kB", " MB", " GB", " TB"}); }
std::string human_count(double count) { return human(count, 1000, {"", " k", " M", " G", " T"}); }
std::string human_flops(double count) { return human(count, 1000, {" FLOP", " kFLOP", " MFLOP", " GFLOP", " TFLOP"}); }
std::string short_number(double value) {
  if (value == 0) return "0";
  return std::isfinite(value) ? fmt::format("{:.1e}", value) : fmt::format("{}", value);
}

}  // namespace pycandle::cli
