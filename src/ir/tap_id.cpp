#include "ir/tap_id.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <utility>

namespace pycandle {
namespace {

using Kind = TapId::Kind;

constexpr std::array<std::pair<Kind, std::string_view>, 6> kPrefixes{{{Kind::node, "node:"},
                                                                      {Kind::input, "input:"},
                                                                      {Kind::output, "output:"},
                                                                      {Kind::state_before, "state:"},
                                                                      {Kind::state_after, "updated:"},
                                                                      {Kind::whole_run, "whole run:"}}};
constexpr std::array<std::pair<Kind, std::string_view>, 2> kSides{
    {{Kind::module_output, "/output"}, {Kind::module_input, "/input"}}};

// The digits at the front, taken off; nothing when there are none.
std::optional<int64_t> take_number(std::string_view& text) {
  int64_t number = 0;
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool is_number = failure == std::errc{} && end != text.data() && text[0] != '-';
  if (!is_number) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return number;
}

// What stands behind the '@' of a module's call: "0/output.1", or the short "0".
std::optional<TapId> parse_call(std::string_view path, std::string_view rest) {
  const std::optional<int64_t> call = take_number(rest);
  if (!call) return std::nullopt;
  if (rest.empty()) return TapId(Kind::module_output, std::string(path), *call);
  for (const auto& [kind, side] : kSides) {
    if (!rest.starts_with(side)) continue;
    const std::string_view part = rest.substr(side.size());
    if (part.empty()) return TapId(kind, std::string(path), *call);
    if (part[0] == '.') return TapId(kind, std::string(path), *call, std::string(part.substr(1)));
  }
  return std::nullopt;
}

}  // namespace

TapId TapId::parse(std::string_view text) {
  // A module's name may have any of these characters in it, so the whole pattern has to fit.
  for (size_t at = text.find('@'); at != std::string_view::npos; at = text.find('@', at + 1)) {
    if (std::optional<TapId> id = parse_call(text.substr(0, at), text.substr(at + 1))) return *std::move(id);
  }
  for (const auto& [kind, prefix] : kPrefixes) {
    if (text.starts_with(prefix)) return {kind, std::string(text.substr(prefix.size()))};
  }
  return {Kind::module_output, std::string(text), 0};
}

std::string TapId::module_call() const { return is_of_module() ? fmt::format("{}@{}", module, call) : ""; }

std::string TapId::text() const {
  for (const auto& [its, prefix] : kPrefixes) {
    if (its == kind) return std::string(prefix) + part;
  }
  return fmt::format("{}/{}{}{}", module_call(), is_argument() ? "input" : "output", part.empty() ? "" : ".", part);
}

}  // namespace pycandle
