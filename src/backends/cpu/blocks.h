// Images in blocks of channels, [batch, blocks, height, width, lanes]: what convolutions read and write best. A value has the
// form as its own, as blocks, or both; the planner makes the other one when somebody asks (Planner::view, Planner::blocked).
#pragma once

#include <utility>
#include <vector>

#include "backends/cpu/planner.h"

namespace pycandle::cpu {

Sizes blocked_sizes(const Sizes& image);

// The view of an image and that of its blocks, in pieces that have the same sizes: whole blocks, and the rest of the last one.
std::vector<std::pair<View, View>> blocked_pieces(const View& image, const View& blocked);

// A convolution, as far as one can tell before anything is planned.
enum class BlockedKind { none, sums, depthwise };
BlockedKind blocked_kind(const Planner&, size_t node);

// Per value: does a convolution, a pool or a mean over the positions read it, through whatever keeps the form?
PerValue<bool> wanted_in_blocks(const Planner&);

}  // namespace pycandle::cpu
