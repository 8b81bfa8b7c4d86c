// The commands and their options as data, for completions and the manual page.
#pragma once

#include <string>

#include "cli/options.h"

namespace pycandle::cli {

// Of the whole program; the options of commands in Python are asked of it.
CommandFacts facts_of_program(const Command& program);

std::string replaced_all(std::string text, const std::string& what, const std::string& with);

}  // namespace pycandle::cli
