// What loss functions share: an error for each element, then a mean, a sum, or all of them.
#pragma once

#include <string>

#include "ops/core/functional_helpers.h"

namespace pycandle {

inline const char* const kReductions[] = {"none", "mean", "sum"};  // torch's numbers for them are the indices

inline Attribute reduction_of(AtenCall& a) {
  const int64_t index = a.integer("reduction");
  if (index < 0 || index > 2) a.unsupported("reduction=" + std::to_string(index));
  return std::string(kReductions[index]);
}

inline Ints every_axis(Builder& b, ValueId x) { return axes_between(0, b.rank(x)); }

inline ValueId reduced(Builder& b, ValueId errors, std::string_view reduction) {
  if (reduction == "mean") return b.mean(errors, every_axis(b, errors), false);
  if (reduction == "sum") return b.sum(errors, every_axis(b, errors), false);
  return errors;
}
inline ValueId reduced(Builder& b, const Call& c, ValueId errors) { return reduced(b, errors, c.string("reduction")); }

inline bool knows_reduction(const Call& c) {
  return std::any_of(std::begin(kReductions), std::end(kReductions),
                     [&](const char* name) { return c.string("reduction") == name; });
}

}  // namespace pycandle
