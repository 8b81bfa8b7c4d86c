// The structs of a decode step's cache: each class that keeps rows gets its part, and hands their parts to the modules it has.
#pragma once

#include "emit/tree.h"

namespace pycandle::emit {

// Fills ModelTree::caches, and what the classes take of them. Once all names are final; nothing for a program that keeps none.
void find_caches(ModelTree&);

}  // namespace pycandle::emit
