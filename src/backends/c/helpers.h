// Functions that stand at the head of a C file when something in it needs them.
#pragma once

#include <set>
#include <string>

namespace pycandle::c {

// The texts of the helpers in `needed`, and of those that they need, in order.
std::string helper_texts(const std::set<std::string>& needed, bool is_freestanding);
// One of the needed functions that only libm has; empty: none.
std::string function_of_libm(const std::set<std::string>& needed);

}  // namespace pycandle::c
