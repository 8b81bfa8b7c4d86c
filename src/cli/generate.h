// pycandle generate
#pragma once

#include "cli/command.h"

namespace pycandle::cli {
void add_generate(Command&, Context&);
}
