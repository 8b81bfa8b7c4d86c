// Tokenizers and chat templates for Python.
#pragma once

#include <nanobind/nanobind.h>

namespace pycandle {
void bind_text(nanobind::module_&);
}
