#pragma once

namespace pycandle::cli {

bool has_colours();  // stdout is a terminal, and NO_COLOR is not set

}  // namespace pycandle::cli
