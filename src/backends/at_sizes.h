// A program for given sizes: every symbol is its number. For backends that write code for the sizes that they see.
#pragma once

#include "ir/graph.h"

namespace pycandle {

// In types, attributes, regions and checks. Symbols that `sizes` does not name stay: those that data decides. Checks that now
// compare a number with itself are gone.
Program at_sizes(Program, const Bindings& sizes);

}  // namespace pycandle
