// The backend that writes C: one file for each program and its sizes, compiled by the system's compiler.
#pragma once

#include "backends/backend.h"

namespace pycandle {

const Backend& c_backend();

namespace c {
// As the backend writes it: what it does not write whole is decomposed. A gap, named by its op, when something is left.
Program lowered_program(const Program&, const OpTable&, const PipelineOptions& = {}, std::vector<PassTiming>* = nullptr);
}  // namespace c

}  // namespace pycandle
