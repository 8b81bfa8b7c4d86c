// Removes what no output, state or tap needs.   tests/passes/remove_unused.ptir
//
//   %1 = exp(%0)                    %1 = exp(%0)
//   %2 = neg(%0)           →        return %1
//   return %1
#include "passes/passes.h"
#include "passes/rewriter.h"

namespace pycandle {

Program remove_unused(Program p, const OpTable&) { return without_dead_nodes(std::move(p)); }

}  // namespace pycandle
