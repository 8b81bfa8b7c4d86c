// Which values of a program are judged, and under which names people know them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "verify/judging/goldens.h"

namespace pycandle {

// The values to judge, each with the taps that show it, the innermost module first; in the order of computation, for ids
// count up with the nodes. Outputs that no tap shows are "output:NAME", new values of states "updated:NAME".
std::map<ValueId, std::vector<std::string>> values_to_judge(const Program&, const Goldens&);

bool is_state(const std::string& tap);  // what a state became
// "transformer.h.3.mlp@0/output" → "transformer.h.3.mlp@0"; the root is "". An argument of a module was computed outside
// of it, what a module hands on before it came in, and "node:7" and "output:logits" name no module: their path is that of
// the node.
std::string path_of(const std::string& tap, const std::string& path_of_node);

}  // namespace pycandle
