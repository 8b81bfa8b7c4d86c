#pragma once

#include <nanobind/nanobind.h>

namespace pycandle {

// Decoder, Cache, PrefixStore: what python/pycandle/running/decoder.py stands on.
void bind_decoding(nanobind::module_&);

}  // namespace pycandle
