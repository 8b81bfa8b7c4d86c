// What a class gives, and what its type is, in C++.
#pragma once

#include <string>
#include <vector>

#include "emit/tree.h"

namespace pycandle::emit::cpp {

// Are some of its numbers random?
bool draws_numbers(const Graph&);
// "Block" of nn::ModuleList<Block>, "nn::Linear", "nn::Sequential<nn::Conv2d, nn::ReLU>".
std::string type_of(const ModelTree&, const Use&);
// Results in another form than Python's tuple are a struct that names them.
bool returns_struct(const ModuleClass&);
// Python's tuple, also of one: its value has another name than the value alone.
bool returns_tuple(const ModuleClass&);
// The names of that struct's fields.
std::vector<std::string> result_fields(const ModelTree&, const ModuleClass&);

}  // namespace pycandle::emit::cpp
