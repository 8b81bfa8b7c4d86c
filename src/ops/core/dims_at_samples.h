// Dims that algebra cannot compare are compared at sample sizes: enough to refuse a wrong import, never a proof.
#pragma once

#include "ir/builder.h"

namespace pycandle {

enum class Agreement {
  proven,    // equal for every binding
  observed,  // equal at every sample
  refuted    // they differ somewhere
};
Agreement compare(Dim a, Dim b, const SymbolRanges&);
inline Agreement compare(Dim a, Dim b, const Builder& builder) {
  return compare(a, b, builder.ranges() ? *builder.ranges() : SymbolRanges{});
}

// a ≤ b for every binding, as far as algebra and samples can tell; unknown when the samples disagree with each other.
Tri seems_at_most(Dim a, Dim b, const Builder&);

}  // namespace pycandle
