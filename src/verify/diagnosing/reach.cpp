#include "verify/diagnosing/reach.h"

#include <algorithm>
#include <cmath>

#include "verify/diagnosing/slice_edits.h"

namespace pycandle {

bool reaches_error(const Slice& slice, const Trials& trials, const std::vector<Array>& inputs, const Array& golden,
                   const Node& node) {
  Mistake other;
  other.build = [](const MistakeSite& m) {
    Values results = m.same(m.operands);
    for (ValueId& v : results) {
      if (is_floating(m.b.dtype(v))) v = m.b.add(m.b.mul(v, 1.37), 0.21);
    }
    return results;
  };
  const auto changed = with_mistake(slice, trials.table(), node, other, 0);
  const bool is_float = std::all_of(node.results.begin(), node.results.end(),
                                    [&](ValueId v) { return is_floating(slice.program.graph.type(v).dtype); });
  if (!changed || !is_float) return true;
  const std::vector<double> now = as_reals(trials.rounded(slice.program, inputs)),
                            then = as_reals(trials.rounded(*changed, inputs)), right = as_reals(golden);
  double most = 0;
  for (size_t i = 0; i < now.size(); ++i) most = std::max(most, std::abs(now[i] - right[i]));
  for (size_t i = 0; i < now.size(); ++i) {
    if (std::abs(now[i] - right[i]) > most / 4 && same_number(now[i], then[i])) return false;
  }
  return true;
}

}  // namespace pycandle
