// Backends that are shared libraries of their own (backends/plugin.h): found, checked, loaded, and watched while they run.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"

namespace pycandle {

// The backend in this library, loaded once for the process and never unloaded. What it gives is checked, and what it throws that
// is no Error becomes one that names it. bad_input when the file is no such library or was built for another version.
const Backend& plugin_backend(const std::filesystem::path& library);

// The library of a backend that ships with PyCandle apart from its shared library: c.so in the folder pycandle_backends, beside
// the file that this code is in. Nothing when there is none.
inline constexpr const char* kShippedPlugins[] = {"c"};
std::optional<std::filesystem::path> shipped_plugin(const std::string& name);

// A library in a folder of PYCANDLE_BACKEND_PATH.
struct FoundPlugin {
  std::filesystem::path library;
  std::string name;                // of its backend; of the file when it was refused
  std::optional<Error> refused;
};
// In the order of the folders, and of the names in each.
std::vector<FoundPlugin> found_plugins();

}  // namespace pycandle
