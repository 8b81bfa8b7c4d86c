// A program for given sizes: every symbol is its number. For backends that write code for the sizes that they see.
#pragma once

#include "ir/graph.h"

namespace pycandle {

// In types, attributes, regions and checks. Symbols that `sizes` does not name stay: those that data decides. Checks that now
// compare a number with itself are gone.
Program at_sizes(Program, const Bindings& sizes);

// Does the node give a size that neither its operands have nor its attributes say?
bool finds_a_size(const Graph&, const Node&);
// Are there sizes that only the run finds out (nonzero)? Nothing can be planned for them. A slice of a program has symbols that
// no input binds too, but whoever runs it says how large they are.
bool has_data_bound_sizes(const Program&);

}  // namespace pycandle
