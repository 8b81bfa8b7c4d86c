// pycandle tokenize
#pragma once

#include "cli/command.h"

namespace pycandle::cli {
void add_tokenize(Command&, Context&);
}
