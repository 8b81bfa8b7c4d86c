// torch.nn in the front end: which calls are exactly one of its modules, and with which constructor arguments. For modules
// of one node the op's paragraph says it (OpDef::nn).
//
// A call is an nn module when its nodes are that module's functional on the call's own parameters, by the names torch
// gives them, and nothing else. A class of somebody's own that does no more (LlamaRMSNorm) is one too.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "emit/call_tree.h"

namespace pycandle::emit {

struct NnModule {
  std::string name;            // "Conv2d"
  std::string member;          // "conv": what a module whose Python name is a number is called
  std::vector<LayerArgument> arguments;
  Values inputs;               // of forward, in its order
  // Where each result of the call is in what forward returns: "" the whole, ".first", ".second.first"
  std::vector<std::pair<ValueId, std::string>> results;
};

std::optional<NnModule> nn_module(const CallTree&, int32_t call);
// Has the module no parameters: an activation, a pool? Then a language without such modules writes its function.
bool is_plain(const CallTree&, int32_t call);
// The names that modules can have.
std::vector<std::string> nn_classes();

}  // namespace pycandle::emit
