// Inputs that are given by name, in the order that a program takes them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/array.h"

namespace pycandle {

struct WantedInput {
  std::string name, type;
};

// Missing and unknown names are one Error that lists what is wanted and what was given.
std::vector<Array> in_order(const std::vector<WantedInput>&, const std::map<std::string, Array>& given);

}  // namespace pycandle
