// The entry point of a backend that is a shared library of its own: `--backend ./libmine.so`. In one of its files:
//
//   PYCANDLE_BACKEND(my_backend());      // const pycandle::Backend& my_backend();
//
// Such a library links nothing of PyCandle: the process that loads it has the functions that these headers declare.
#pragma once

#include <cstdint>

#include "backends/backend.h"
#include "ir/builder.h"
#include "ir/evaluation.h"

namespace pycandle {

// Counts the changes of these headers that another compilation is needed for.
#ifndef PYCANDLE_KIT_VERSION
#define PYCANDLE_KIT_VERSION 1
#endif

// What the entry point says before any code of the library runs. It is read from the file, so its beginning never changes.
struct BackendPlugin {
  char marker[16];
  uint64_t kit_version;
  uint64_t layout;  // of the types that both sides use
  const Backend& (*backend)();
};
inline constexpr const char* kPluginSymbol = "pycandle_backend_plugin";

// Differs when the compiler, its library or these headers lay out a type in another way.
constexpr uint64_t kit_layout() {
  uint64_t hash = 0xcbf29ce484222325;
  for (const size_t size : {sizeof(Array),      sizeof(Error),           sizeof(Dim),
                            sizeof(Type),       sizeof(Attribute),       sizeof(Node),
                            sizeof(Value),      sizeof(Graph),           sizeof(Origin),
                            sizeof(Symbol),     sizeof(Input),           sizeof(Parameter),
                            sizeof(State),      sizeof(Output),          sizeof(Tap),
                            sizeof(Check),      sizeof(Program),         sizeof(Call),
                            sizeof(OpDef),      sizeof(OpTable),         sizeof(Builder),
                            sizeof(Evaluation), sizeof(ParameterSource), sizeof(RunRequest),
                            sizeof(StepTime),   sizeof(ExecutableUse),   sizeof(PipelineOptions),
                            sizeof(Pass),       sizeof(PassTiming),      size_t{__GXX_ABI_VERSION}}) {
    hash = (hash ^ size) * 0x100000001b3;
  }
  return hash;
}

}  // namespace pycandle

// NOLINTNEXTLINE(cppcoreguidelines-macro-usage): the symbol and the version of the headers must be the library's own
#define PYCANDLE_BACKEND(expression)                                                                         \
  extern "C" __attribute__((visibility("default"))) const ::pycandle::BackendPlugin pycandle_backend_plugin; \
  const ::pycandle::BackendPlugin pycandle_backend_plugin = {                                                \
      {'p', 'y', 'c', 'a', 'n', 'd', 'l', 'e', ' ', 'b', 'a', 'c', 'k', 'e', 'n', 'd'},                      \
      PYCANDLE_KIT_VERSION,                                                                                  \
      ::pycandle::kit_layout(),                                                                              \
      []() -> const ::pycandle::Backend& { return expression; }}
