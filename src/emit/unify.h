// One class for one class of Python: calls that differ in an argument that some of them leave out, or in a field of Python's that
// is true or false, are calls of one class.
//
//   attn(x)         k = k_proj(x)              Tensor forward(const Tensor& x, const Tensor& states = {}) const {
//   attn(x, states) k = k_proj(states)    →      const Tensor current = states.defined() ? states : x;
#pragma once

#include <map>
#include <string>
#include <vector>

#include "emit/draft.h"

namespace pycandle::emit {

// Calls that become one class; the first is the one that its steps are read from.
struct ClassOfCalls {
  std::vector<int32_t> calls;
  std::map<ValueId, ValueId> left_out;  // ModuleClass::left_out
};

// groups: calls with equal texts. Gives each draft the arguments that its class takes.
std::vector<ClassOfCalls> unified(const CallTree&, std::vector<Draft>& drafts, const std::vector<std::vector<int32_t>>& groups);

// Python's names for a number: scalar attributes of the module that have its value in every one of the calls.
std::vector<std::string> attribute_names(const CallTree&, const std::vector<Draft>& drafts, const std::vector<int32_t>& calls,
                                         size_t column);

}  // namespace pycandle::emit
