// The reference backend: walks the graph and calls the evaluators. It is the definition of what a program computes.
#pragma once

#include "backends/backend.h"

namespace pycandle {

const Backend& reference_backend();

// The modes that verification needs, run in lock-step over one decomposed program.
struct ReferenceMode {
  enum class Kind {
    rounded,  // every primitive rounds once to its dtype
    f64,      // floats are never rounded; integers and bools are taken from the rounded run
    jittered  // rounded, and each primitive moved by up to u * scale at random
  } kind = Kind::rounded;
  uint64_t seed = 0;  // jittered
};

struct ReferenceRun {
  std::vector<Array> outputs;  // in the order of Program::outputs
};

// inputs: by mode, then in the order of Program::inputs (mode 0 is the rounded one and must be first).
// The program is decomposed already (run_backend_pipeline with claims = primitives).
std::vector<ReferenceRun> run_reference_modes(const Program& decomposed, const ParameterSource&, const std::vector<ReferenceMode>&,
                                              const std::vector<Array>& inputs);
// The backend pipeline down to primitives.
Program decompose_to_primitives(const Program&, const OpTable&);

}  // namespace pycandle
