// Parameters in other formats: packed for a kernel, joined, with a batch norm in them. Made once for the process and shared
// by everyone who asks for the same format of the same values.
#pragma once

#include <compare>
#include <functional>
#include <string>

#include "base/array.h"
#include "base/hash.h"

namespace pycandle {

struct DerivedKey {
  Hash128 source;      // the fingerprint of the parameter, or of what was computed from several
  std::string format;  // "gemm b avx512"
  friend auto operator<=>(const DerivedKey&, const DerivedKey&) = default;
};

// The array under this key, made when it is not there; threads that ask for it at the same time make it once. It lives as
// long as anyone has it, and longer while all those that nobody has stay within the budget.
Array derived_parameter(const DerivedKey&, const std::function<Array()>& make);
bool is_derived(const DerivedKey&);  // it is there already

struct DerivedUse {
  size_t count = 0, bytes = 0;         // in use or kept
  size_t unused_bytes = 0;             // of those: kept though nobody has them
  size_t made = 0, found = 0;          // requests since the process began
};
DerivedUse derived_use();
void set_derived_budget(size_t bytes);  // of what nobody has; 256 MB otherwise

}  // namespace pycandle
