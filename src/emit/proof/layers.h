// The front end's nn modules by their names: what nn::Conv2d(3, 64, 7, {.stride = 2}, w / "conv1") makes.
#pragma once

#include "emit/proof/value.h"

namespace pycandle::emit::proof {

// name: "nn::Conv2d". Null when there is no such module.
std::shared_ptr<const Layer> make_layer(const std::string& name, const List& arguments);

}  // namespace pycandle::emit::proof
