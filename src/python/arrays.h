// Arrays between Python and us, by DLPack.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <map>
#include <string>

#include "base/array.h"

namespace pycandle {

using InArray = nanobind::ndarray<nanobind::ro, nanobind::c_contig, nanobind::device::cpu>;

// Copied, so that the caller may change or free its memory while the model runs without the GIL.
Array to_array(const std::string& what, const InArray&);
// Arrays by name. kind: "input" or "state", for errors.
std::map<std::string, Array> to_tensors(const nanobind::dict&, const std::string& kind = "input");
// A copy that Python owns: results may be views of mapped weights.
nanobind::object to_python(const Array&);

}  // namespace pycandle
