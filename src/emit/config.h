// The numbers of a model that Python keeps in a configuration (transformers' config, or attributes of the model itself such
// as hidden_dim), found again in what the modules are built with: 768 is n_embd, 2304 is 3 * n_embd.
#pragma once

#include "emit/tree.h"

namespace pycandle::emit {

void find_config(ModelTree&);

}  // namespace pycandle::emit
