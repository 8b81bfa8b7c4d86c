#include "backends/c/lowerings.h"

#include <map>

namespace pycandle::c {
namespace {

std::map<std::string_view, Lowering> joined(std::initializer_list<Lowerings> tables) {
  std::map<std::string_view, Lowering> all;
  for (const Lowerings& table : tables) all.insert(table.begin(), table.end());
  return all;
}

Lowering found(const std::map<std::string_view, Lowering>& table, std::string_view op) {
  const auto entry = table.find(op);
  return entry == table.end() ? nullptr : entry->second;
}

}  // namespace

Lowering find_view(std::string_view op) {
  static const std::map<std::string_view, Lowering> table = joined({view_lowerings()});
  return found(table, op);
}

Lowering find_lowering(std::string_view op) {
  static const std::map<std::string_view, Lowering> table = joined(
      {movement_lowerings(), indexing_lowerings(), reduction_lowerings(), row_lowerings(), product_lowerings(),
       convolution_lowerings(), window_lowerings(), ordering_lowerings(), control_lowerings()});
  return found(table, op);
}

bool is_claimed(const Call& call, const OpTable& table) { return is_row_functional(call) || is_inlined_functional(call, table); }

}  // namespace pycandle::c
