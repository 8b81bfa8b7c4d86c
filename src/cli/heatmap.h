// A picture of a difference in the terminal, in the colours of the report's page.
#pragma once

#include <string>

#include "verify/judging/difference.h"

namespace pycandle::cli {

// Two rows a line in half blocks; in shades, a row a line, where there are no colours. Empty when nothing differs.
std::string heatmap(const DifferencePicture&);

}  // namespace pycandle::cli
