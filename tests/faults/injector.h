// Puts a fault into a program on purpose: one node computes something else. Shares nothing with the search for causes.
#pragma once

#include <memory>
#include <string>

#include "backends/backend.h"
#include "base/json.h"
#include "ir/op_def.h"

namespace pycandle::faults {

// {"node": 17, "edit": "attribute", "name": "eps", "value": 0.01}: docs/faults.md lists the edits. `is_node` says which
// node it is, by its place in the graph.
Program injected(Program, const OpTable&, const Json& fault, const std::function<bool(size_t index, const Node&)>& is_node);

// A backend with the fault in it: `whole` is the program whose nodes are numbered. Slices carry the number of a node in
// its origin. Faults of values ("corrupt") change what the backend gives, not what it is given; `changed` is set once one
// did: a kernel that errs at odd sizes may never see one.
std::unique_ptr<Backend> faulty_backend(const Backend& inner, const Program& whole, Json fault, bool* changed);

}  // namespace pycandle::faults
