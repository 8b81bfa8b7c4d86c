// Public: include/pycandle/array.h.
#pragma once

#include "pycandle/array.h"
