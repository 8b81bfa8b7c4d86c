// The generated header of the catalogue.
#pragma once

#include <string>

#include "ir/op_def.h"

namespace pycandle::cli {

std::string ops_header(const OpTable&);
// The front end: include/pycandle/functional.h and src/capture/functional.cpp.
std::string front_header(const OpTable&);
std::string front_source(const OpTable&);

}  // namespace pycandle::cli
