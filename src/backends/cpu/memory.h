// Where the buffers of a plan lie, once place_buffers() has placed them.
#pragma once

#include "backends/cpu/plan.h"
#include "backends/placed.h"

namespace pycandle::cpu {

std::vector<PlacedBuffer> placed_buffers(const Plan&);

}  // namespace pycandle::cpu
