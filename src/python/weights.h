#pragma once

#include <nanobind/nanobind.h>

namespace pycandle {

// Checkpoint, extract_weights, map_weights: what python/pycandle/weights.py stands on.
void bind_weights(nanobind::module_&);

}  // namespace pycandle
