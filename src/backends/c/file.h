// The text of a C file.
#pragma once

#include <string>

#include "backends/c/generator.h"

namespace pycandle::c {

// A file for dlopen: its one function is kEntry.
std::string loadable_file(const Generator&);
inline constexpr const char* kEntry = "pycandle_run";
// int pycandle_run(inputs, outputs, states, weights, arena, tap, taps): 0, or 1 when an index was out of range. tap(taps, t,
// values) is called for each tap of the program that has a place in memory; tap may be null.
using Entry = int (*)(const void* const* inputs, void* const* outputs, void* const* states, const void* weights, void* arena,
                      void (*tap)(void* taps, int t, const void* values), void* taps);

// What both files have before the run: includes, helpers, functions.
std::string functions_text(const Generator&);
// The calls of a run, one a line; pointer(view, is_written) is a C pointer of the element type.
// form: of a tap, with its number and pointer as {}.
std::string calls_text(const Generator&, const std::function<std::string(const View&)>& pointer, bool has_taps,
                       const char* form = "if (tap) tap(taps, {}, {});");
// The weights in their order, padded to 64 bytes each; call with a writer of bytes.
void write_weights(const Generator&, const std::function<void(const void*, size_t)>& write);

}  // namespace pycandle::c
