// The catalogue: every op, from every family, in one table.
#pragma once

#include "ir/op_def.h"

namespace pycandle {

const OpTable& catalogue();

// Each family is a file src/ops/<folder>/<family>.cpp that ends in one of these functions; catalogue.cpp lists them.
using Family = std::vector<OpDef> (*)();

// The definitions in their order, each with the overloads and samples that mapping() adds to it (ir/op_def.h).
std::vector<OpDef> merge_mappings(std::vector<OpDef>);

}  // namespace pycandle
