// Agreement that proves nothing: a value that a wrong program would give as well. docs/evidence.md has the rules.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verify/judging/judge.h"
#include "verify/judging/slices.h"

namespace pycandle {

// Values in which numbers of an input or a state have a part; a shape alone is no part. Per value of the program.
PerValue<bool> values_from_inputs(const Program&);
// The same of source code: what the recorded program computes from its inputs counts as well, so that ones in the place of gates
// that are all open prove no more than the gates do.
PerValue<bool> values_from_inputs(const Program&, const Program& recorded);

// Why this golden proves nothing of the layer that gave it: "all of its 96 elements are 0". Floats and complex numbers alone;
// one element that is a number other than 0 always proves something. inputs: those of the slice.
std::optional<std::string> vacuity(const Slice&, const OpTable&, const std::vector<Array>& inputs, const Array& golden);

// Rounding alone takes half of the digits of most elements: "rounding alone moves this value by 3.1 of its size".
std::optional<std::string> drowns_in_rounding(const Floor&, DType);
// The float of fewest digits that the layer computes in: f64 that is quantised in f32 has no more digits than f32.
DType coarsest_float(const Program& decomposed, DType of_result);

// A layer of primitives in which rounding may grow: a sum, or one rounding after another.
bool may_grow_rounding(const Program& decomposed);

}  // namespace pycandle
