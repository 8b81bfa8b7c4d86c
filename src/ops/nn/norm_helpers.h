// What the norms share.
#pragma once

#include <optional>

#include <fmt/format.h>
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

// The norm stands after a sum; the model may have it before, of one summand. Or only one summand is meant.
inline void order_with_sum(Mistakes& m) {
  if (made_by(m.call().graph(), m.call().value("x"), "add") == nullptr) return;
  constexpr const char *kKind = "norm order", *kNow = "the norm of a sum";
  for (const size_t side : {0, 1}) {
    const auto part = [side](const MistakeSite& site, size_t which) {
      return made_by(site.b.graph(), site.operands[0], "add")->operands[which == 0 ? side : 1 - side];
    };
    const std::string which = side == 0 ? "first" : "second";
    m.build(kKind, kNow, fmt::format("a sum with the norm of the {} summand", which), [part](const MistakeSite& site) {
      const ValueId other = part(site, 1);
      Values results = site.same(site.with_operand("x", part(site, 0)));
      results[0] = site.b.add(results[0], other);
      return results;
    });
    m.build(kKind, kNow, fmt::format("the norm of the {} summand", which),
            [part](const MistakeSite& site) { return site.same(site.with_operand("x", part(site, 0))); });
  }
}

inline void affine_mistakes(Mistakes& m) {
  order_with_sum(m);
  m.without("missing weight", "weight", "weight");
  m.without("missing bias", "bias", "bias");
  m.operand("weight offset", "weight", "the weight", "one plus the weight", [](Builder& b, ValueId w) { return b.add(w, 1.0); });
  m.operand("weight offset", "weight", "the weight", "the weight less one", [](Builder& b, ValueId w) { return b.sub(w, 1.0); });
}

inline void other_epsilon(Mistakes& m) { m.number("epsilon", "eps", "an epsilon", kEpsilons, {0}); }

}  // namespace pycandle
