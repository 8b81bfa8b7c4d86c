// What the type of a module is in C++.
#pragma once

#include <string>

#include "emit/results.h"

namespace pycandle::emit::cpp {

// "Block" of nn::ModuleList<Block>, "nn::Linear", "nn::Sequential<nn::Conv2d, nn::ReLU>".
std::string type_of(const ModelTree&, const Use&);

}  // namespace pycandle::emit::cpp
