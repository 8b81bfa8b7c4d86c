// Public: include/pycandle/error.h.
#pragma once

#include "pycandle/error.h"
