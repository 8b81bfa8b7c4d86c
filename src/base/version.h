// The version of PyCandle. python/pycandle/version.py says it.
#pragma once

namespace pycandle {

const char* version();

}  // namespace pycandle
