// Which values of a program are judged, and under which names people know them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "verify/judging/goldens.h"

namespace pycandle {

// The values to judge, each with the taps that show it, the innermost module first; in the order of computation, for ids
// count up with the nodes. Outputs that no tap shows, and new values of states, are taps of their own.
std::map<ValueId, std::vector<TapId>> values_to_judge(const Program&, const Goldens&);

// "transformer.h.3.mlp@0"; the root is "". An argument of a module was computed outside of it, what a module hands on before
// it came in, and node:7 and output:logits name no module: their path is that of the node.
std::string path_of(const TapId&, const std::string& path_of_node);

}  // namespace pycandle
