#include "emit/columns.h"

#include <fmt/format.h>

#include <set>

namespace pycandle::emit {

bool is_structural(std::string_view name) {
  static const std::set<std::string_view> names{"axis",          "axes",           "dim",        "permutation",
                                                "axis1",         "axis2",          "batch_left", "batch_right",
                                                "contract_left", "contract_right", "carries",    "unsqueeze_dim"};
  return names.count(name) != 0;
}

bool is_number(const Attribute& a) {
  return std::holds_alternative<int64_t>(a) || std::holds_alternative<double>(a) || std::holds_alternative<Ints>(a) ||
         std::holds_alternative<Numbers>(a) || std::holds_alternative<std::complex<double>>(a);
}

bool is_switch(std::string_view name, const Attribute& a) {
  static const std::set<std::string_view> names{"is_causal", "align_corners", "ceil_mode", "count_include_pad"};
  return std::holds_alternative<bool>(a) && names.count(name) != 0;
}

void add_number(const Attribute& value, Column column, std::string& text, std::vector<Column>& columns) {
  text += fmt::format("#{}", value.index());
  if (const auto* list = std::get_if<Ints>(&value)) text += fmt::format("x{}", list->size());
  if (const auto* list = std::get_if<Numbers>(&value)) text += fmt::format("x{}", list->size());
  column.value = value;
  columns.push_back(std::move(column));
}

}  // namespace pycandle::emit
