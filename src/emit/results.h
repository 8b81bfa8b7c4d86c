// What a class gives, in words that every language shares.
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit {

// Are some of its numbers random?
bool draws_numbers(const Graph&);
// Results in another form than Python's tuple are a struct that names them.
bool returns_struct(const ModuleClass&);
// Python's tuple, also of one: its value has another name than the value alone.
bool returns_tuple(const ModuleClass&);
// The names of that struct's fields.
std::vector<std::string> result_fields(const ModelTree&, const ModuleClass&);

}  // namespace pycandle::emit
