// The reference backend: walks the graph and calls the evaluators. It is the definition of what a program computes.
#pragma once

#include <functional>
#include <optional>
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
  bool long_sums = false;  // jittered: sums move by more, as when terms are added one after another (growth_of in walker.cpp)
  // jittered, f16 or bf16: as kernels for that dtype err. They compute in f32, round once, and may take the operands of products
  // in that dtype. Nothing: each result moves by up to u of its own dtype.
  std::optional<DType> kernels_for = std::nullopt;
  double noise = 1;  // of such kernels, in u of f32
  bool rounds_products = false;  // such kernels round a product before a bias is added to it
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
