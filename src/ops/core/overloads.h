// Where ATen's overloads are mapped to ops.
#pragma once

#include <map>
#include <string>

namespace pycandle {

// "aten.sum.default" → "src/ops/reduction/reduction_aten.cpp": the file of the op, or of a mapping() elsewhere.
std::map<std::string, std::string> overload_files();

}  // namespace pycandle
