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

}  // namespace

bool has_colours() {
  static const bool on = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
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
  constexpr size_t kLeast = 12;
  const size_t excess = total() > limit ? total() - limit : 0;
  if (excess > 0 && !widths.empty()) widths[0] = widths[0] > excess + kLeast ? widths[0] - excess : std::min(widths[0], kLeast);
  std::string out;
  for (const auto& row : rows_) {
    std::string line = indent;
    for (size_t i = 0; i < row.size(); ++i) {
      if (!is_shown[i]) continue;
      const std::string cell = i == 0 && excess > 0 ? shortened(row[i], widths[i]) : row[i];
      line += cell;
      if (i + 1 < row.size()) line.append(widths[i] - std::min(widths[i], width(cell)) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += line + "\n";
  }
  return out;
}

double Progress::seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

void Progress::update(size_t done, size_t total) {
  using namespace std::chrono_literals;
  const auto now = std::chrono::steady_clock::now();
  const bool terminal = isatty(STDERR_FILENO) != 0;
  if (now - start_ < 2s || now - last_ < (terminal ? 100ms : 10000ms)) return;
  last_ = now;
  const std::string line = fmt::format("{}: {} of {} ({:.0f} s)", what_, done, total, seconds());
  fmt::print(stderr, "{}{}{}", terminal ? "\r" : "", line, terminal ? "\033[K" : "\n");
  std::fflush(stderr);
  shown_ = terminal;
}

Progress::~Progress() {
  if (shown_) fmt::print(stderr, "\r\033[K");
}

std::string human_bytes(double bytes) { return human(bytes, 1000, {" B", " kB", " MB", " GB", " TB"}); }
std::string human_count(double count) { return human(count, 1000, {"", " k", " M", " G", " T"}); }
std::string short_number(double value) {
  if (value == 0) return "0";
  return std::isfinite(value) ? fmt::format("{:.1e}", value) : fmt::format("{}", value);
}

}  // namespace pycandle::cli
