// Attention that is written out: are the scores of later positions masked, so that their weights are zero?
#pragma once

#include "passes/decoding/sequence_axes.h"

namespace pycandle::decoding {

// Scores with a row for each query along axis `query` and a column for each key along `key`: is every element behind the
// diagonal so low that no weight is left after a softmax? Proven in the index domain (passes/index_domain.h).
bool is_masked_behind(const Program&, const SequenceAxes&, ValueId scores, int64_t query, int64_t key);
// The weights that a softmax over `key` makes of such scores, moved or cast since.
bool is_zero_behind(const Program&, const SequenceAxes&, ValueId weights, int64_t query, int64_t key);

}  // namespace pycandle::decoding
