// Numbers for every parameter of a program: others for names of other lengths, none of them 0.
#pragma once

#include <cmath>
#include <map>
#include <memory>

#include "params/parameters.h"

namespace pycandle {

inline std::shared_ptr<const ParameterSource> some_weights(const Program& p) {
  std::map<std::string, Array> arrays;
  for (const Parameter& parameter : p.parameters) {
    const Sizes shape = evaluate(parameter.type.shape, {});
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(3 * i + parameter.name.size()));
    arrays.emplace(parameter.name, store(parameter.type.dtype, shape, values));
  }
  return memory_parameters(std::move(arrays));
}

}  // namespace pycandle
