// Programs whose sizes depend on data (nonzero): a plan cannot be made before its sizes are known. So the program is cut where
// nodes find sizes; they run on the reference, and what lies between them is programs of its own.
#pragma once

#include <functional>
#include <memory>

#include "backends/backend.h"

namespace pycandle::cpu {

// Whether the program can be cut: states and random numbers belong to a run as a whole.
bool can_be_cut(const Program&);

// How a piece is compiled: with plans, or because its nodes find sizes on the reference.
using CompilePiece = std::function<std::unique_ptr<Executable>(const Program&, bool finds_sizes)>;
std::unique_ptr<Executable> in_segments(const Program&, std::shared_ptr<const ParameterSource>, const CompilePiece&);

}  // namespace pycandle::cpu
