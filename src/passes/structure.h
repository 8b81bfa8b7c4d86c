// What a program computes, whatever its values are numbered, its nodes ordered and its source lines were: the round trip
// from a recording through emitted code back to a graph ends here.
//
// A value's hash is that of the op, its attributes and its operands' hashes. Inputs count by position, parameters and
// states by canonical name, dynamic sizes by the input and axis that bind them. Where a node came from does not count.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "ir/graph.h"

namespace pycandle {

struct Structure {
  std::vector<std::pair<std::string, Hash128>> outputs;  // outputs by name, then what the states become
  friend bool operator==(const Structure&, const Structure&) = default;
};
Structure structure_of(const Program&);
// All of it as one number: what `pycandle accept` notes.
Hash128 hash_of(const Structure&);
// Of every value of the program's graph.
std::vector<Hash128> value_hashes(const Program&);

// Empty when both programs have one structure; else where they differ first, going back from the outputs:
//   output.logits: layer_norm at transformer.ln_f@0 has eps = 1e-05, the other 1e-06
std::string first_difference(const Program& a, const Program& b);

}  // namespace pycandle
