// Helpers for families that map torch's spellings to ops of other families.
#pragma once

#include <string>
#include <vector>

#include "ir/op_def.h"

namespace pycandle {

// overloads of (self, other) that are `op` after promotion and broadcasting.
void add_binary(OpDef&, const char* op, const std::vector<std::string>& overloads);
OpDef binary_mapping(const char* op, const std::vector<std::string>& overloads);

}  // namespace pycandle
