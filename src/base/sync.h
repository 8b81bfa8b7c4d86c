// On the disk, not only on the way to it.
#pragma once

#include <filesystem>

namespace pycandle {

void sync_file(const std::filesystem::path&);  // bad_input when the disk does not take it

}  // namespace pycandle
