// A forward() that is too long to read becomes several functions: it is cut where the fewest values are alive.
//
//   Tensor forward(const Tensor& x) const {              Tensor forward(const Tensor& x) const {
//     … fifty statements that end in `features` …          const Tensor features = compute_features(x);
//     … forty more …                                       … forty more …
#pragma once

#include <set>
#include <string>
#include <vector>

#include "emit/cpp/body.h"

namespace pycandle::emit::cpp {

struct Helper {
  std::string result, name;              // "Tensor", "std::tuple<Tensor, Tensor>"
  Forward body;
};

constexpr size_t kLongestFunction = 58;  // lines between the braces

// Takes statements out of the function into helpers, in their order. `taken`: names that the class has already.
std::vector<Helper> split_long(Forward&, std::set<std::string> taken);

}  // namespace pycandle::emit::cpp
