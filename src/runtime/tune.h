// Which implementation of each functional is the quickest on this machine: measured once, then remembered.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "runtime/model.h"

namespace pycandle {

// For the functionals of the model that the backend can run in several ways and that the options leave open: the whole
// model is timed with each, in turns. Kept in the user's cache folder (runtime/machine.h) by processor, instruction set,
// version, threads, functional and class of shapes: the elements of its largest call, to the next power of two.
std::map<std::string, std::string> tuned_overrides(const std::filesystem::path& model, const LoadOptions&,
                                                   const std::function<Model::Tensors(const Model&)>& inputs);

}  // namespace pycandle
