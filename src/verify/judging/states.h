// What a call makes of a program's states, as values that can be judged like any other.
#pragma once

#include <functional>

#include "ir/op_def.h"
#include "passes/pipeline.h"

namespace pycandle {

// A node behind every state that changes: one that is set to an input, a parameter or another state as it is gets a
// reshape, at the place that `origin_of` says.
Program with_computed_states(Program, const OpTable&, const std::function<Origin(const State&)>& origin_of);

// An imported program in program form, with such nodes.
Program program_to_judge(Program imported, const OpTable&, const PipelineOptions& = {});

// forward() of the module that has the buffer: "norm.running_mean" is a buffer of "norm".
Origin owner_of(const Program&, const State&);

// Program::graph.inputs from inputs, parameters and states, after some were added.
void order_inputs(Program&);

}  // namespace pycandle
