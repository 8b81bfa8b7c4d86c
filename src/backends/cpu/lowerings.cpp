#include "backends/cpu/lowerings.h"

#include <map>

namespace pycandle::cpu {

const Lowering* find_lowering(std::string_view op) {
  static const auto table = [] {
    std::map<std::string_view, Lowering> by_name;
    for (const auto& family : {movement_lowerings(), elementwise_lowerings(), product_lowerings(), row_lowerings(),
                               attention_lowerings(), cache_lowerings(), integer_lowerings(), indexing_lowerings(),
                               expert_lowerings(), convolution_lowerings(), recurrent_lowerings(), complex_lowerings()}) {
      for (const Lowering& lowering : family) by_name.emplace(lowering.op, lowering);
    }
    return by_name;
  }();
  const auto found = table.find(op);
  return found == table.end() ? nullptr : &found->second;
}

}  // namespace pycandle::cpu
