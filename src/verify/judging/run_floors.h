// What rounding does to each golden of a call in one run of the whole program, from its inputs. A Checker sees such a run, where
// errors add up; the floors of slices are too small for it.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "verify/judging/goldens.h"
#include "verify/judging/judge.h"

namespace pycandle {

using RunFloors = std::map<std::string, RunFloor>;  // by the golden's name in the trace file; floats alone

RunFloors run_floors(const Program&, const OpTable&, const ParameterSource&, const Goldens&);

}  // namespace pycandle
