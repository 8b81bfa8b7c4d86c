// The weights of a bundle.
#pragma once

#include "import/bundle.h"
#include "params/parameters.h"

namespace pycandle {

// Mapped; what the bundle keeps in fewer bytes is widened when it is asked for.
std::shared_ptr<const ParameterSource> bundle_parameters(std::shared_ptr<const Bundle>);

}  // namespace pycandle
