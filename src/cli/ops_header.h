// The generated header of the catalogue.
#pragma once

#include <string>

#include "ir/op_def.h"

namespace pycandle::cli {

std::string ops_header(const OpTable&);

}  // namespace pycandle::cli
