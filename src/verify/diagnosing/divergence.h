// Where the slice of a captured program and that of the recorded one part.
#pragma once

#include <string>
#include <vector>

#include "base/hash.h"
#include "ir/op_def.h"

namespace pycandle {

// An input of a slice: the same array is the same value, whatever it is called in either program.
struct GivenValue {
  Hash128 identity;
  std::string name;
};
Hash128 identity_of(const Array&);

// The ops that one slice has and the other has not, on values that both have: "silu(w3@0/output)". What only follows from
// them is left out.
struct Divergence {
  std::vector<std::string> ours, recorded;        // in words
  std::vector<std::string> our_ops, recorded_ops;  // their names
};
Divergence divergence_of(const Program& ours, const std::vector<GivenValue>& our_inputs, const Program& recorded,
                         const std::vector<GivenValue>& recorded_inputs);

}  // namespace pycandle
