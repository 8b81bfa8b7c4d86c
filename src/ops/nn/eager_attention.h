// Attention that a program spells out: softmax(query · keyᵀ * scale + mask) · value.
#pragma once

#include "ir/region.h"

namespace pycandle {

// Calls of scaled_dot_product_attention that the region may be. It ends in the product with value.
std::vector<Proposal> propose_attention(const Region&);

}  // namespace pycandle
