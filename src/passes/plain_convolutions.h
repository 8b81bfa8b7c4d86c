// Convolutions that backends have no kernels for, written as those that they have (plain_convolutions.cpp).
#pragma once

#include "passes/pipeline.h"

namespace pycandle {

// A backend that runs the pass claims what has another form, so that it is not decomposed.
bool has_plain_form(const Call&);
Program plain_convolutions(Program, const OpTable&);

}  // namespace pycandle
