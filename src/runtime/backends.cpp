#include "runtime/backends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>

#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "base/error.h"
#include "runtime/plugins.h"

namespace pycandle {
namespace {

std::vector<const Backend*>& all_backends() {
  static std::vector<const Backend*> all{&reference_backend(), &cpu_backend()};
  return all;
}

}  // namespace

void add_backend(const Backend& backend) { all_backends().push_back(&backend); }

const Backend& find_backend(const std::string& name) {
  for (const Backend* backend : all_backends()) {
    if (backend->name() == name) return *backend;
  }
  if (name.find('/') != std::string::npos || name.ends_with(".so")) return plugin_backend(name);
  std::vector<std::string> refused;
  for (const FoundPlugin& plugin : found_plugins()) {
    if (plugin.name == name && !plugin.refused) return plugin_backend(plugin.library);
    if (plugin.refused) refused.push_back(plugin.library.string());
  }
  if (const auto shipped = shipped_plugin(name)) return plugin_backend(*shipped);
  Error error = Error(ErrorCode::usage, fmt::format("there is no backend {}", name))
                    .expected(fmt::format("one of {}, or the path of a library", fmt::join(all_backend_names(), ", ")))
                    .found(name);
  if (!refused.empty()) error.hint(fmt::format("pycandle doctor says why {} is not loaded", fmt::join(refused, ", ")));
  throw error;
}

std::string usual_backend(const char* otherwise) {
  const char* named = std::getenv("PYCANDLE_BACKEND");
  return named != nullptr && *named != '\0' ? named : otherwise;
}

std::vector<std::string> backend_names() {
  std::vector<std::string> names;
  for (const Backend* backend : all_backends()) names.push_back(backend->name());
  return names;
}

std::vector<std::string> all_backend_names() {
  std::vector<std::string> names = backend_names();
  for (const char* name : kShippedPlugins) {
    if (std::find(names.begin(), names.end(), name) == names.end() && shipped_plugin(name)) names.emplace_back(name);
  }
  for (const FoundPlugin& plugin : found_plugins()) {
    if (!plugin.refused) names.push_back(plugin.name);
  }
  return names;
}

}  // namespace pycandle
