// pycandle verify of a bundle without goldens: is it what was verified when it was made?
#pragma once

#include <string>

#include "cli/command.h"

namespace pycandle::cli {

// Every hash, the bytes of the weights, and the decode step derived once more from the program.
void run_bundle_check(const std::string& model, Context&);

}  // namespace pycandle::cli
