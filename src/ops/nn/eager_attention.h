// Attention that a program spells out: softmax(query · keyᵀ * scale + mask) · value.
#pragma once

#include "ir/fragment.h"

namespace pycandle {

// Calls of scaled_dot_product_attention that the fragment may be. It ends in the product with value.
std::vector<Proposal> propose_attention(const Fragment&);

}  // namespace pycandle
