// Public: include/pycandle/dtype.h.
#pragma once

#include "pycandle/dtype.h"
