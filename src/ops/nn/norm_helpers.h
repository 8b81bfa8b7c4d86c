// What the norms share.
#pragma once

#include <optional>

#include "ir/layer.h"
#include "ir/mistakes.h"
#include "ops/core/functional_helpers.h"

namespace pycandle {

// (x - mean) / sqrt(var + eps) over `axes`, with the statistics it used (kept as axes of 1).
struct Normal {
  ValueId y, mean, rstd;
};

inline Normal normalized(Builder& b, ValueId x, const Ints& axes, double eps) {
  const ValueId mean = b.mean(x, axes);
  const ValueId centred = b.sub(x, mean);
  const ValueId rstd = b.rsqrt(b.add(b.mean(b.square(centred), axes), eps));
  return {b.mul(centred, rstd), mean, rstd};
}

// The dtype in which torch hands out statistics: that of the weight (or bias), which may be wider than x.
inline DType statistics_dtype(const Call& c) {
  for (const char* name : {"weight", "bias"}) {
    if (c.has(name)) return c.type(name).dtype;
  }
  return c.type("x").dtype;
}

// ---- what people get wrong with any of them

inline void affine_mistakes(Mistakes& m) {
  m.without("missing weight", "weight", "weight");
  m.without("missing bias", "bias", "bias");
  m.operand("weight offset", "weight", "the weight", "one plus the weight", [](Builder& b, ValueId w) { return b.add(w, 1.0); });
  m.operand("weight offset", "weight", "the weight", "the weight less one", [](Builder& b, ValueId w) { return b.sub(w, 1.0); });
}

inline void other_epsilon(Mistakes& m) { m.number("epsilon", "eps", "an epsilon", kEpsilons); }

}  // namespace pycandle
