// pycandle onnx-convert.
#pragma once

#include "cli/command.h"

namespace pycandle::cli {

void add_onnx_convert(Command&, Context&);

}  // namespace pycandle::cli
