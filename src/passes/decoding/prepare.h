// The program as the rules read it: functionals that they do not know are decomposed, and elements that are picked by
// coordinates which are positions (mask[b, j] over b = arange(batch), j = arange(length)) are moved instead. A running sum of
// ones is arange(length) + 1.
#pragma once

#include "ir/op_def.h"

namespace pycandle::decoding {

Program prepared(const Program&, const OpTable&);

}  // namespace pycandle::decoding
