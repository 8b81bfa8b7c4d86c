// Arrays between Python and us, by DLPack.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <map>
#include <string>

#include "base/array.h"

namespace pycandle {

using InArray = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

// shared: the caller's memory, which lives as long as the array; for what a call reads while it runs. copied: for what is kept.
enum class Memory { shared, copied };
Array to_array(const std::string& what, const InArray&, Memory = Memory::shared);
// Arrays by name. kind: "input" or "state", for errors.
std::map<std::string, Array> to_tensors(const nanobind::dict&, const std::string& kind = "input", Memory = Memory::shared);
// A copy that Python owns: results may be views of mapped weights.
nanobind::object to_python(const Array&);

}  // namespace pycandle
