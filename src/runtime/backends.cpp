#include "runtime/backends.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdlib>

#include "backends/c/c.h"
#include "backends/cpu/cpu.h"
#include "backends/reference/reference.h"
#include "base/error.h"

namespace pycandle {
namespace {

std::vector<const Backend*> all_backends() { return {&reference_backend(), &cpu_backend(), &c_backend()}; }

}  // namespace

const Backend& find_backend(const std::string& name) {
  for (const Backend* backend : all_backends()) {
    if (backend->name() == name) return *backend;
  }
  throw Error(ErrorCode::usage, fmt::format("there is no backend {}", name))
      .expected(fmt::format("one of {}", fmt::join(backend_names(), ", ")))
      .found(name);
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

}  // namespace pycandle
