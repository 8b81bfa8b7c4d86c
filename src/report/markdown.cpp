// The summary for a pull request or a log: what fits on a screen. Names come from outside, so nothing in them is markup.
#include <fmt/format.h>

#include <algorithm>

#include "report/parts.h"

namespace pycandle::report {
namespace {

constexpr size_t kMostRows = 20;

// As text of one line: in backquotes, of which there are more than in the text itself, and with no cell's border in it.
std::string code(const std::string& text) {
  std::string one_line;
  size_t longest = 0, run = 0;
  for (const char c : text) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
    if (c == '|') {
      one_line += "\\|";
    } else {
      one_line += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  const std::string fence(longest + 1, '`');
  const char* space = longest > 0 ? " " : "";
  return one_line.empty() ? std::string() : fence + space + one_line + space + fence;
}

// As plain text: markup and HTML are escaped.
std::string plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (std::string_view("\\`*_{}[]()<>#+!|~&").find(c) != std::string_view::npos) out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out;
}

std::string text_of(const Json& document, const Json& row, const char* key) {
  return row.contains(key) ? document["texts"].at(row[key].get<size_t>()).get<std::string>() : std::string();
}

void add_verdicts(const Json& document, std::string& out) {
  const Json& result = document["result"];
  out += "\n| verdict | layers |\n|---|---:|\n";
  for (const auto& [verdict, count] : result["counts"].items())
    out += fmt::format("| {} | {} |\n", verdict, count.get<int64_t>());
  size_t shown = 0, wrong = 0;
  std::string rows;
  for (const Json& layer : result["layers"]) {
    if (text_of(document, layer, "verdict") != "wrong here") continue;
    if (++wrong > kMostRows) continue;
    ++shown;
    rows += fmt::format(
        "| {} | {} | {} | {} |\n", code(layer["tap"]), code(text_of(document, layer, "op")),
        code(text_of(document, layer, "python")),
        plain(layer.contains("diagnosis") ? text_in(layer["diagnosis"], "cause") : text_of(document, layer, "why")));
  }
  if (rows.empty()) return;
  out += "\n| wrong here | op | Python | cause |\n|---|---|---|---|\n" + rows;
  if (wrong > shown) out += fmt::format("\n{} more.\n", wrong - shown);
}

void add_baseline(const Json& baseline, std::string& out) {
  const Json& changes = baseline["changes"];
  if (changes.empty()) {
    out += "\nAs the baseline.\n";
    return;
  }
  out += "\n| since the baseline | layer | what |\n|---|---|---|\n";
  for (size_t i = 0; i < std::min(kMostRows, changes.size()); ++i)
    out += fmt::format("| {} | {} | {} |\n", text_in(changes[i], "change"), code(text_in(changes[i], "tap")),
                       plain(text_in(changes[i], "what")));
  if (changes.size() > kMostRows) out += fmt::format("\n{} more.\n", changes.size() - kMostRows);
}

}  // namespace

std::string markdown(const Json& document) {
  std::string out = fmt::format("# {}\n\n**{}**\n", plain(text_in(document, "name")),
                                plain(text_in(document["summary"], "sentence")));
  if (!document["result"].is_null()) add_verdicts(document, out);
  if (!document["baseline"].is_null()) add_baseline(document["baseline"], out);
  for (const Json& p : document["profiles"])
    out += fmt::format("\n{} on {}: {} ms with {} threads.\n", code(text_in(p, "file")), plain(text_in(p, "backend")),
                       p["ms"].get<double>(), p["threads"].get<double>());
  const Json& program = document["program"];
  out += fmt::format("\n{} parameters, {} nodes, {} module calls.\n", program["parameter_elements"].get<int64_t>(),
                     program["nodes"]["rows"].size(), program["calls"]["rows"].size());
  for (const Json& gap : document["coverage"]["gaps"])
    out += fmt::format("\nNot supported: {}, {} times.\n", code(text_in(gap, "op")), gap["count"].get<int64_t>());
  if (!document["summary"]["next"].empty()) out += "\nNext:\n\n";
  for (const Json& step : document["summary"]["next"])
    out += fmt::format("- {}: {}\n", plain(text_in(step, "why")), code(text_in(step, "command")));
  return out;
}

}  // namespace pycandle::report
