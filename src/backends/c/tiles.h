// The inner loops of matrix products: a tile of rows times a panel of 16 columns, in registers.
#pragma once

#include <string>

namespace pycandle::c {

std::string tile_texts();

}  // namespace pycandle::c
