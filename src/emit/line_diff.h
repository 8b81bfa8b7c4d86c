// Differences between texts, line by line: shown as a unified diff, and merged with a common ancestor.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pycandle::emit {

std::vector<std::string> lines_of(std::string_view text);  // without their ends

// The unified diff with three lines of context; empty when the texts are equal.
std::string unified_diff(const std::string& before, const std::string& after, const std::string& name);

// For every line of `before`, from 1, the line that it became, or 0: lines that were replaced by as many stay in their places.
std::vector<int32_t> carried_lines(const std::string& before, const std::string& after);

struct Merge {
  std::string text;
  std::vector<size_t> conflicts;  // lines of `mine` at which both sides changed the same place, from 1
};
Merge three_way_merge(const std::string& base, const std::string& mine, const std::string& theirs);

}  // namespace pycandle::emit
