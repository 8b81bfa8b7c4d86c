// What the public headers have in common.
#pragma once

#define PYCANDLE_API __attribute__((visibility("default")))

namespace pycandle {
struct Program;  // PTIR: src/ir/graph.h
namespace front {}
// The front end is pycandle::Tensor, pycandle::Dim, … The library's own files, which have another Dim (src/base/dim.h), say
// front::Dim.
#ifndef PYCANDLE_INSIDE
using namespace front;
#endif
}  // namespace pycandle
