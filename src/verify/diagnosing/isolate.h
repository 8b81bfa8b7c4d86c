// Which op of a slice the backend gets wrong: each alone, from the reference's values; the reference computes the rest.
#pragma once

#include <optional>

#include "verify/judging/slices.h"
#include "verify/judging/trials.h"

namespace pycandle {

struct Isolated {
  Slice part;                     // of the slice: one op, or the fewest ops that are wrong only together
  std::vector<NodeId> nodes;     // numbers of those ops in the original program
  std::vector<Array> inputs;      // of the part, by the reference
  Array expected, got;            // by the reference, and by the backend
  Judgement judgement;
};

// Nothing when every op is right alone and together: the error depends on what is around them.
std::optional<Isolated> isolate(const Slice&, const std::vector<Array>& inputs, const Backend&, const PipelineOptions&,
                                const Trials&);

}  // namespace pycandle
