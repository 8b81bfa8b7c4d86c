#include "import/gaps.h"

#include <fmt/format.h>

#include <algorithm>

namespace pycandle {
namespace {

constexpr size_t kPlacesKept = 20, kPlacesShown = 3;

// The number of letters to change, add, take away or swap with their neighbour; gives up above the limit.
size_t edit_distance(std::string_view a, std::string_view b, size_t limit) {
  if (a.size() > b.size() + limit || b.size() > a.size() + limit) return limit + 1;
  std::vector<std::vector<size_t>> cost(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        cost[i][j] = i + j;
        continue;
      }
      const size_t changed = cost[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      cost[i][j] = std::min({cost[i - 1][j] + 1, cost[i][j - 1] + 1, changed});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) cost[i][j] = std::min(cost[i][j], cost[i - 2][j - 2] + 1);
    }
  }
  return cost[a.size()][b.size()];
}

std::string_view without_overload(std::string_view op) { return op.substr(0, op.rfind('.')); }

}  // namespace

std::string place_text(const Program& program, const Origin& origin) {
  std::string text = program.module_path(origin);
  std::string line = program.file_line(origin), source = program.source_line(origin);
  if (!line.empty()) text += (text.empty() ? "" : ", ") + line;
  if (!source.empty()) text += (text.empty() ? "" : ": ") + source;
  return text;
}

void Gaps::add(const std::string& op, const std::string& reason, const std::string& place, bool is_known_overload) {
  Gap& gap = found_[{op, reason}];
  if (gap.count++ == 0) {
    gap.op = op;
    gap.reason = reason;
    gap.suggestion = is_known_overload
                         ? "change this use of it in the model, or add a decomposition at recording (docs/recording.md)"
                         : suggestion(op);
  }
  if (gap.places.size() < kPlacesKept && !place.empty() &&
      std::find(gap.places.begin(), gap.places.end(), place) == gap.places.end())
    gap.places.push_back(place);
}

int Gaps::count() const {
  int total = 0;
  for (auto& [key, gap] : found_) total += gap.count;
  return total;
}

std::vector<Gap> Gaps::sorted() const {
  std::vector<Gap> gaps;
  for (auto& [key, gap] : found_) gaps.push_back(gap);
  std::stable_sort(gaps.begin(), gaps.end(), [](const Gap& a, const Gap& b) { return a.count > b.count; });
  return gaps;
}

std::string Gaps::suggestion(const std::string& op) const {
  if (op.find("sparse") != op.npos)
    return "tensors are dense here: use x.to_dense() before the model, or gather the entries and add them with index_add";
  std::string near;
  std::vector<std::string> siblings;
  size_t best = 3;
  for (auto& [overload, entry] : table_->aten()) {
    if (without_overload(overload) == without_overload(op)) siblings.push_back(overload);
    size_t distance = edit_distance(without_overload(overload), without_overload(op), best);
    if (distance < best) {
      best = distance;
      near = overload;
    }
  }
  std::string text = "add a decomposition at recording (docs/recording.md)";
  if (!siblings.empty()) return fmt::format("{} is supported; {}", fmt::join(siblings, ", "), text);
  if (!near.empty()) return fmt::format("the nearest that is supported is {}; {}", near, text);
  return text;
}

Error Gaps::error(const Program& program, int nodes) const {
  std::vector<Gap> gaps = sorted();
  std::string message;
  if (gaps.size() == 1) {
    message = gaps[0].reason;
  } else {
    message = fmt::format("{} uses {} things that are not supported", program.name, gaps.size());
  }
  for (const Gap& gap : gaps) {
    if (gaps.size() > 1) message += fmt::format("\n  {}", gap.reason);
    message += fmt::format("\n    found {} time{}", gap.count, gap.count == 1 ? "" : "s");
    for (size_t i = 0; i < gap.places.size() && i < kPlacesShown; ++i) message += fmt::format("\n    in {}", gap.places[i]);
    if (gap.places.size() > kPlacesShown) message += fmt::format("\n    and {} more places", gap.places.size() - kPlacesShown);
    message += fmt::format("\n    {}", gap.suggestion);
  }
  Error error(ErrorCode::gap, message);
  if (gaps.size() == 1) error.op(gaps[0].op);
  error.hint(fmt::format("everything else ({} of {} nodes) is supported; pycandle codegen --analyze-only lists all",
                         nodes - count(), nodes));
  return error;
}

}  // namespace pycandle
