#include "runtime/plugins.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>

#include "backends/plugin.h"
#include "base/error.h"
#include "base/file.h"
#include "base/version.h"
#include "runtime/guarded_backend.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

Error refused(const fs::path& library, const std::string& why) {
  return Error(ErrorCode::bad_input, fmt::format("{} {}", library.string(), why));
}

constexpr const char* kHowToBuild = "docs/adding-a-backend.md shows how one is built";

// The numbers in an entry point, read from the file: no code of another version is run.
void check_version(const fs::path& library) {
  const std::shared_ptr<const MappedFile> file = MappedFile::open(library);
  const std::string_view bytes(reinterpret_cast<const char*>(file->data()), file->size());
  if (!bytes.starts_with("\177ELF")) throw refused(library, "is no shared library").hint(kHowToBuild);
  BackendPlugin expected{"", PYCANDLE_KIT_VERSION, kit_layout(), nullptr};
  constexpr std::string_view kMarker = "pycandle backend";
  std::optional<BackendPlugin> other;
  for (size_t at = bytes.find(kMarker); at != std::string_view::npos; at = bytes.find(kMarker, at + 1)) {
    BackendPlugin found{};
    if (at % alignof(BackendPlugin) != 0 || at + sizeof found > bytes.size()) continue;  // a text that mentions it
    std::memcpy(static_cast<void*>(&found), bytes.data() + at, sizeof found);
    if (found.kit_version == expected.kit_version && found.layout == expected.layout) return;
    other = found;
  }
  if (!other) {
    throw refused(library, "has no entry point of a backend")
        .expected(fmt::format("PYCANDLE_BACKEND(…) in one of its files, which gives it the symbol {}", kPluginSymbol))
        .hint(kHowToBuild);
  }
  throw refused(library, "was built for another version of PyCandle")
      .expected(fmt::format("backend kit {}, types laid out as {:016x} (PyCandle {})", expected.kit_version, expected.layout,
                            version()))
      .found(fmt::format("backend kit {}, types laid out as {:016x}", other->kit_version, other->layout))
      .hint("build it again with the headers and the compiler of this PyCandle");
}

// The program, shared library or extension that this code is in.
std::string own_file() {
  Dl_info here{};
  return dladdr(reinterpret_cast<const void*>(&own_file), &here) != 0 && here.dli_fname != nullptr ? here.dli_fname : "";
}

// A library looks for our functions among the names that all see. Python keeps those of an extension to itself.
void show_our_names() {
  dlopen(own_file().c_str(), RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);  // fails for a program, whose names are seen already
}

const Backend& loaded(const fs::path& library) {
  check_version(library);
  show_our_names();
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    const char* why = dlerror();
    throw refused(library, "cannot be loaded")
        .found(why ? why : "no reason was given")
        .hint("a backend may use what backends/kit.h declares; other libraries must be on this machine");
  }
  const auto* plugin = static_cast<const BackendPlugin*>(dlsym(handle, kPluginSymbol));
  if (plugin == nullptr || plugin->backend == nullptr) {
    throw refused(library, "has no entry point of a backend")
        .expected(fmt::format("the symbol {}", kPluginSymbol))
        .hint(kHowToBuild);
  }
  return guarded_backend(library.filename().string(), plugin->backend);
}

}  // namespace

const Backend& plugin_backend(const fs::path& library) {
  static std::mutex mutex;
  static std::map<fs::path, const Backend*> known;
  std::error_code failure;
  const fs::path path = fs::canonical(library, failure);
  if (failure) {
    throw Error(ErrorCode::usage, fmt::format("there is no backend {}", library.string()))
        .expected("a shared library")
        .found(failure.message());
  }
  const std::lock_guard lock(mutex);
  const auto found = known.find(path);
  if (found != known.end()) return *found->second;
  return *known.emplace(path, &loaded(path)).first->second;
}

std::optional<fs::path> shipped_plugin(const std::string& name) {
  std::error_code failure;
  const fs::path folder = fs::weakly_canonical(own_file(), failure).parent_path();
  for (const char* lib : {"", "lib", "../lib"}) {  // a library, the extension, a program
    fs::path library = folder / lib / "pycandle_backends" / (name + ".so");
    if (fs::exists(library, failure)) return library;
  }
  return std::nullopt;
}

std::vector<FoundPlugin> found_plugins() {
  std::vector<FoundPlugin> plugins;
  const char* folders = std::getenv("PYCANDLE_BACKEND_PATH");
  std::string_view rest = folders ? folders : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const fs::path folder(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (folder.empty()) continue;
    std::error_code failure;
    std::vector<fs::path> libraries;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, failure)) {
      if (entry.path().extension() == ".so") libraries.push_back(entry.path());
    }
    if (failure)
      plugins.push_back(
          {folder, folder.string(), refused(folder, "of PYCANDLE_BACKEND_PATH cannot be read").found(failure.message())});
    std::sort(libraries.begin(), libraries.end());
    for (const fs::path& library : libraries) {
      FoundPlugin plugin{library, library.filename().string(), std::nullopt};
      try {
        plugin.name = plugin_backend(library).name();
      } catch (const Error& error) {
        plugin.refused = error;
      }
      plugins.push_back(std::move(plugin));
    }
  }
  return plugins;
}

}  // namespace pycandle
