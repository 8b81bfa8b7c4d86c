// A JSON schema as a grammar of the texts that are valid by it: docs/generation.md lists what it may say.
#pragma once

#include <string_view>

#include "generate/grammar.h"

namespace pycandle {

// A gap Error names a keyword that is not supported.
Reader json_schema_reader(std::string_view schema);

}  // namespace pycandle
