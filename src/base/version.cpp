#include "base/version.h"

namespace pycandle {

const char* version() { return PYCANDLE_VERSION; }

}  // namespace pycandle
