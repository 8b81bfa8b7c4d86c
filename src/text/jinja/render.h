// Runs a template.
#pragma once

#include "text/jinja/syntax.h"

namespace pycandle::text::jinja {

// `variables` is a dict. Errors: bad_input for what the template raises, and for what has no meaning.
std::string render(const Block& program, const Value& variables);

}  // namespace pycandle::text::jinja
