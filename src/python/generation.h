// Text from language models: LanguageModel, Generation.
#pragma once

#include <nanobind/nanobind.h>

namespace pycandle {
void bind_generation(nanobind::module_&);
}
