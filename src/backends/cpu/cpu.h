// The cpu backend: a program becomes a flat list of steps over one arena, each a kernel or, where there is none, the
// evaluator of the reference.
#pragma once

#include "backends/backend.h"

namespace pycandle {

const Backend& cpu_backend();

}  // namespace pycandle
