// Rows of a cache that no later token reads, because every attention that reads them looks at the last few positions alone.
#pragma once

#include <functional>
#include <map>

#include "passes/decoding/sequence_axes.h"

namespace pycandle::decoding {

// How many of the last positions are read, of each value whose cache needs no more: the rows that are kept, and what only moves
// them on the way to attention. is_kept: of a value and those that it is moved from, the one whose rows are kept.
std::map<ValueId, int64_t> read_windows(const Program&, const SequenceAxes&, const std::function<bool(ValueId)>& is_kept);

}  // namespace pycandle::decoding
