// pycandle diff.
#pragma once

#include "cli/command.h"

namespace pycandle::cli {

void add_diff(Command&, Context&);

}  // namespace pycandle::cli
