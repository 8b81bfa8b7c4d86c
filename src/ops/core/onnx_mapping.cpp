#include "ops/core/onnx_mapping.h"

#include <fmt/format.h>

#include <charconv>

namespace pycandle {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

// The parts between commas, outside brackets.
std::vector<std::string_view> parts(std::string_view text) {
  std::vector<std::string_view> found;
  int depth = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size() && text[i] == '[') ++depth;
    if (i < text.size() && text[i] == ']') --depth;
    if (i < text.size() && (text[i] != ',' || depth > 0)) continue;
    if (const std::string_view part = trimmed(text.substr(start, i - start)); !part.empty()) found.push_back(part);
    start = i + 1;
  }
  return found;
}

template <class T> T number_of(std::string_view text, const std::string& overload) {
  T value{};
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size())
    internal_error(fmt::format("{}: '{}' is not a default value", overload, text));
  return value;
}

// none, "text", 1, 0.5, [1, 1]
Argument default_of(std::string_view text, const std::string& overload) {
  if (text == "none") return {};
  if (text.front() == '"') return {std::string(text.substr(1, text.size() - 2))};
  if (text.front() == '[') {
    Argument::List list;
    for (const std::string_view part : parts(text.substr(1, text.size() - 2))) list.push_back(default_of(part, overload));
    return {std::move(list)};
  }
  if (text.find_first_of(".e") != std::string_view::npos) return {number_of<double>(text, overload)};
  return {number_of<int64_t>(text, overload)};
}

OnnxArgument input_of(std::string_view text) {
  OnnxArgument argument;
  for (; !text.empty(); text.remove_suffix(1)) {
    if (text.back() == '?')
      argument.is_optional = true;
    else if (text.back() == '#')
      argument.is_known = true;
    else if (text.back() == '*')
      argument.is_list = true;
    else
      break;
  }
  argument.name = std::string(text);
  return argument;
}

OnnxArgument attribute_of(std::string_view text, const std::string& overload) {
  OnnxArgument argument;
  argument.is_input = false;
  if (text.back() == '!') {
    argument.is_required = true;
    argument.name = std::string(text.substr(0, text.size() - 1));
    return argument;
  }
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) internal_error(fmt::format("{}: attribute {} has no default", overload, text));
  argument.name = std::string(text.substr(0, equals));
  argument.default_value = default_of(text.substr(equals + 1), overload);
  return argument;
}

OnnxEntry entry_of(const OpDef& op, const AtenMapping& mapping) {
  // A pattern names operands alone; it is the signature too.
  const std::string text = mapping.build ? mapping.overload : fmt::format("{}({})", mapping.overload, mapping.pattern);
  const size_t open = text.find('(');
  if (open == std::string_view::npos || text.back() != ')') internal_error(fmt::format("{} says no inputs", text));
  OnnxEntry entry{&op, &mapping, text.substr(0, open), 1, {}};
  entry.since = number_of<int64_t>(std::string_view(entry.overload).substr(entry.overload.rfind('.') + 1), entry.overload);
  const std::string_view inside = std::string_view(text).substr(open + 1, text.size() - open - 2);
  const size_t semicolon = inside.find(';');
  for (const std::string_view part : parts(inside.substr(0, semicolon))) entry.arguments.push_back(input_of(part));
  if (semicolon != std::string_view::npos)
    for (const std::string_view part : parts(inside.substr(semicolon + 1)))
      entry.arguments.push_back(attribute_of(part, entry.overload));
  return entry;
}

std::string operator_name(std::string_view domain, std::string_view op) {
  return domain.empty() ? std::string(op) : fmt::format("{}.{}", domain, op);
}

}  // namespace

OnnxTable::OnnxTable(const OpTable& table) {
  for (const auto& op : table.all()) {
    for (const AtenMapping& mapping : op->aten) {
      if (!is_onnx_overload(mapping.overload)) continue;
      OnnxEntry entry = entry_of(*op, mapping);
      const std::string overload = entry.overload;
      const auto [place, is_new] = entries_.emplace(overload, std::move(entry));
      if (!is_new) internal_error(fmt::format("{} is mapped twice", overload));
      const size_t first = std::string_view("onnx.").size();
      by_operator_[overload.substr(first, overload.rfind('.') - first)][place->second.since] = &place->second;
    }
  }
}

const OnnxEntry* OnnxTable::find(std::string_view domain, std::string_view op, int64_t opset) const {
  const auto versions = by_operator_.find(operator_name(domain, op));
  if (versions == by_operator_.end()) return nullptr;
  const auto after = versions->second.upper_bound(opset);
  return after == versions->second.begin() ? nullptr : std::prev(after)->second;
}

const OnnxEntry* OnnxTable::find(std::string_view overload) const {
  const auto found = entries_.find(overload);
  return found == entries_.end() ? nullptr : &found->second;
}

bool OnnxTable::knows(std::string_view domain, std::string_view op) const {
  return by_operator_.contains(operator_name(domain, op));
}

}  // namespace pycandle
