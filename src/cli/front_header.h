// The front end that is generated from the catalogue: include/pycandle/functional.h and src/capture/functional.cpp.
#pragma once

#include <string>

#include "ir/op_def.h"

namespace pycandle::cli {

std::string front_header(const OpTable&);
std::string front_source(const OpTable&);

}  // namespace pycandle::cli
