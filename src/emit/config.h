// The numbers of a model that Python keeps in a configuration (transformers' config, or attributes of the model itself such
// as hidden_dim), found again in what the modules are built with: 768 is n_embd, 2304 is 3 * n_embd.
#pragma once

#include "emit/tree.h"

namespace pycandle::emit {

void find_config(ModelTree&);
// Has the configuration a field for each half of the model for a number of that role, and do the calls stand in both? Then the
// class is told which, also where the two are equal.
bool differs_by_half(const Program&, const std::vector<int32_t>& calls, const std::string& role, const Attribute& value);

}  // namespace pycandle::emit
