#include "emit/line_diff.h"

#include <fmt/format.h>

#include <algorithm>

namespace pycandle::emit {
namespace {

// For every line of a the line of b that it is, or -1: a longest common subsequence.
std::vector<int64_t> matched(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const size_t rows = a.size(), columns = b.size();
  std::vector<std::vector<uint32_t>> common(rows + 1, std::vector<uint32_t>(columns + 1, 0));
  for (size_t i = rows; i-- > 0;) {
    for (size_t j = columns; j-- > 0;) {
      common[i][j] = a[i] == b[j] ? common[i + 1][j + 1] + 1 : std::max(common[i + 1][j], common[i][j + 1]);
    }
  }
  std::vector<int64_t> found(rows, -1);
  for (size_t i = 0, j = 0; i < rows && j < columns;) {
    if (a[i] == b[j]) {
      found[i++] = static_cast<int64_t>(j++);
    } else if (common[i + 1][j] >= common[i][j + 1]) {
      ++i;
    } else {
      ++j;
    }
  }
  return found;
}

struct DiffLine {
  char sign;  // ' ', '-', '+'
  const std::string* text;
};

std::vector<DiffLine> diff_lines(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::vector<DiffLine> out;
  const std::vector<int64_t> match = matched(a, b);
  size_t j = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (match[i] < 0) {
      out.push_back({'-', &a[i]});
      continue;
    }
    while (j < static_cast<size_t>(match[i])) out.push_back({'+', &b[j++]});
    out.push_back({' ', &a[i]});
    ++j;
  }
  while (j < b.size()) out.push_back({'+', &b[j++]});
  return out;
}

// A run of lines of the base that one side replaced.
struct Change {
  size_t begin, end;          // in the base
  std::vector<std::string> with;
};

std::vector<Change> changes(const std::vector<std::string>& base, const std::vector<std::string>& side) {
  std::vector<Change> found;
  const std::vector<int64_t> match = matched(base, side);
  size_t i = 0, j = 0;
  while (i < base.size() || j < side.size()) {
    if (i < base.size() && match[i] == static_cast<int64_t>(j)) {
      ++i, ++j;
      continue;
    }
    Change change{i, i, {}};
    while (i < base.size() && match[i] < 0) ++i;
    change.end = i;
    const size_t next = i < base.size() ? static_cast<size_t>(match[i]) : side.size();
    while (j < next) change.with.push_back(side[j++]);
    found.push_back(std::move(change));
  }
  return found;
}

bool overlap(const Change& a, const Change& b) {
  if (a.begin == a.end && b.begin == b.end) return a.begin == b.begin;
  return a.begin < std::max(b.end, b.begin + 1) && b.begin < std::max(a.end, a.begin + 1);
}

bool equal(const Change& a, const Change& b) { return a.begin == b.begin && a.end == b.end && a.with == b.with; }

}  // namespace

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    lines.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) break;
    text.remove_prefix(end + 1);
  }
  return lines;
}

std::string unified_diff(const std::string& before, const std::string& after, const std::string& name) {
  if (before == after) return {};
  const std::vector<std::string> a = lines_of(before), b = lines_of(after);
  const std::vector<DiffLine> all = diff_lines(a, b);
  constexpr size_t kContext = 3;
  std::string out = fmt::format("--- {0}\n+++ {0} (emitted)\n", name);
  size_t line_a = 0, line_b = 0;
  for (size_t i = 0; i < all.size();) {
    size_t change = i;
    while (change < all.size() && all[change].sign == ' ') ++change;
    if (change == all.size()) break;
    const size_t begin = std::max(i, change - std::min(change, kContext));
    line_a += begin - i, line_b += begin - i;
    size_t end = change, quiet = 0;
    for (; end < all.size() && quiet <= 2 * kContext; ++end) quiet = all[end].sign == ' ' ? quiet + 1 : 0;
    if (quiet > kContext) end -= quiet - kContext;
    const auto count = [&](char sign) {
      return std::count_if(all.begin() + static_cast<int64_t>(begin), all.begin() + static_cast<int64_t>(end),
                           [&](const DiffLine& l) { return l.sign == ' ' || l.sign == sign; });
    };
    out += fmt::format("@@ -{},{} +{},{} @@\n", line_a + 1, count('-'), line_b + 1, count('+'));
    for (size_t k = begin; k < end; ++k) {
      out += fmt::format("{}{}\n", all[k].sign, *all[k].text);
      line_a += all[k].sign != '+' ? 1 : 0;
      line_b += all[k].sign != '-' ? 1 : 0;
    }
    i = end;
  }
  return out;
}

std::vector<int32_t> carried_lines(const std::string& before, const std::string& after) {
  const std::vector<std::string> from = lines_of(before), to = lines_of(after);
  std::vector<int32_t> became(from.size() + 1, 0);
  int64_t shift = 0;
  size_t i = 0;
  const auto keep_until = [&](size_t end) {
    for (; i < end; ++i) became[i + 1] = static_cast<int32_t>(static_cast<int64_t>(i) + shift + 1);
  };
  for (const Change& change : changes(from, to)) {
    keep_until(change.begin);
    if (change.with.size() == change.end - change.begin) keep_until(change.end);
    i = change.end;
    shift += static_cast<int64_t>(change.with.size()) - static_cast<int64_t>(change.end - change.begin);
  }
  keep_until(from.size());
  return became;
}

Merge three_way_merge(const std::string& base_text, const std::string& mine_text, const std::string& theirs_text) {
  const std::vector<std::string> base = lines_of(base_text);
  const std::vector<Change> mine = changes(base, lines_of(mine_text)), theirs = changes(base, lines_of(theirs_text));
  Merge merged;
  size_t line_of_mine = 0;  // how much longer `mine` has become up to here
  std::vector<Change> all = mine;
  for (const Change& change : mine) {
    for (const Change& other : theirs) {
      if (overlap(change, other) && !equal(change, other)) merged.conflicts.push_back(change.begin + line_of_mine + 1);
    }
    line_of_mine += change.with.size() - (change.end - change.begin);
  }
  if (!merged.conflicts.empty()) return merged;
  for (const Change& other : theirs) {
    if (std::none_of(mine.begin(), mine.end(), [&](const Change& change) { return equal(change, other); })) all.push_back(other);
  }
  std::sort(all.begin(), all.end(), [](const Change& a, const Change& b) { return a.begin < b.begin; });
  size_t i = 0;
  const auto copy_to = [&](size_t end) {
    for (; i < end; ++i) merged.text += base[i] + "\n";
  };
  for (const Change& change : all) {
    copy_to(change.begin);
    for (const std::string& line : change.with) merged.text += line + "\n";
    i = change.end;
  }
  copy_to(base.size());
  return merged;
}

}  // namespace pycandle::emit
