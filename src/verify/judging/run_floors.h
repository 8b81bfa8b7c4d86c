// What rounding does to goldens of a call in one run of the whole program, from its inputs: errors add up there, so the floors
// of slices are too small for it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/reference/reference.h"
#include "verify/judging/goldens.h"
#include "verify/judging/judge.h"

namespace pycandle {

// The value in every mode, beside its golden. A value whose sizes the data decided otherwise is left out.
using OnRunEvidence = std::function<void(ValueId, Evidence&&)>;
// One run in lock-step for all of these values, each of which a node computes and none is drawn.
void run_in_modes(const Program&, const OpTable&, const ParameterSource&, const Goldens&, const Values& wanted,
                  const std::vector<ReferenceMode>&, const OnRunEvidence&);

using RunFloors = std::map<std::string, RunFloor>;  // by the golden's name in the trace file; floats alone

// Whose runs the floors are for. torch, and our backends, add the terms of sums in blocks; another library may add them one after
// another, and its sums err by more.
enum class Sums { in_blocks, in_any_order };

// For a Checker, which sees such a run.
RunFloors run_floors(const Program&, const OpTable&, const ParameterSource&, const Goldens&, Sums = Sums::in_blocks);

}  // namespace pycandle
