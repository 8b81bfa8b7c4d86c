// The reference backend: walks the graph and calls the evaluators. It is the definition of what a program computes.
#pragma once

#include <functional>
#include <vector>

#include "backends/backend.h"

namespace pycandle {

const Backend& reference_backend();

// The modes that verification needs, run in lock-step over one decomposed program.
struct ReferenceMode {
  enum class Kind {
    rounded,  // every primitive rounds once to its dtype
    f64,      // floats are never rounded; integers and bools are taken from the rounded run
    jittered  // rounded, and each primitive moved by up to u * scale at random; integers and bools as above
  } kind = Kind::rounded;
  uint64_t seed = 0;       // jittered
  bool long_sums = false;  // jittered: sums of n terms move by up to sqrt(n) * u * scale, as when added one after another
};

struct ReferenceRun {
  std::vector<Array> outputs;  // in the order of Program::outputs
};

// A tapped value in every mode, as soon as it exists.
using OnTapOfModes = std::function<void(size_t tap, const std::vector<Array>& values)>;

// A run for each mode; the first mode is the rounded one. All of them see the inputs, states and seed of the request.
// The program is decomposed already (decompose_to_primitives).
std::vector<ReferenceRun> run_reference_modes(const Program& decomposed, const ParameterSource&,
                                              const std::vector<ReferenceMode>&, const RunRequest&, const OnTapOfModes& = {});
// The backend pipeline down to primitives.
Program decompose_to_primitives(const Program&, const OpTable&);

}  // namespace pycandle
