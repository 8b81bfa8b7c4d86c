// PYCANDLE_EAGER=1: a program runs node by node, each compiled alone. Nothing is fused or planned over several ops, so that an
// error names its op and its Python line, and a wrong value is that of the op.
#pragma once

#include "backends/backend.h"

namespace pycandle {

bool is_eager_wanted();  // PYCANDLE_EAGER is set, and not to 0

// Compiled by the backend, or node by node where eager is wanted: models and decode steps are made here.
std::unique_ptr<Executable> compile_as_wanted(const Backend&, const Program&, const OpTable&,
                                              std::shared_ptr<const ParameterSource>, const PipelineOptions&,
                                              std::vector<PassTiming>* = nullptr);

}  // namespace pycandle
