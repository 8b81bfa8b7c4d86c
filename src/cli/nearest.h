// What a person probably meant to type.
#pragma once

#include <string>
#include <vector>

namespace pycandle::cli {

// The nearest of these names, or nothing where none is near enough to be a typing error.
std::string nearest(const std::string& typed, const std::vector<std::string>& names);

}  // namespace pycandle::cli
