#include <gtest/gtest.h>

#include "suite/backend_tests.h"

namespace toy {
const pycandle::Backend& backend();
}

PYCANDLE_BACKEND_TESTS(toy::backend());
