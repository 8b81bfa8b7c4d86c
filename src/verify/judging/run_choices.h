// A whole run that chose otherwise than PyTorch: integers that differ, and values whose sizes data decided otherwise. What
// rounding does from the model's inputs to the first such choice may explain it.
#pragma once

#include <string>

#include "verify/judging/trials.h"
#include "verify/judging/whole_run.h"

namespace pycandle {

inline bool chose_otherwise(const WholeRun::Result& r) {
  return r.ours.shape() != r.golden.shape() || (!is_inexact(r.golden.dtype()) && r.metrics.differing > 0);
}

struct RunChoice {
  bool is_wrong = false;  // rounding does not explain it
  std::string why;
};

// `result` is one of whole.results, and chose_otherwise; `reference` is the same value in the reference's own whole run.
RunChoice look_at_run_choice(const Program&, const Goldens&, const Trials&, const WholeRun& whole, const WholeRun::Result& result,
                             const Array& reference, const std::string& whose);

}  // namespace pycandle
