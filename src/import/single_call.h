// One call of an ATen overload as a program of its own. No types were recorded for it, so whatever torch refuses about
// the call must be refused by the catalogue alone: that is what the operator suites try.
#pragma once

#include <string_view>

#include "import/importer.h"

namespace pycandle {

// {"op": "aten.neg.default", "inputs": [{"dtype": "f32", "shape": [2]}], "args": [["self", {"v": 0}]]}
// Inputs and outputs are named by their numbers.
Recording import_call(std::string_view json, const OpTable&);

}  // namespace pycandle
