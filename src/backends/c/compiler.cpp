#include "backends/c/compiler.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <system_error>
#include <vector>

#include "backends/c/text.h"
#include "base/error.h"
#include "base/file.h"
#include "base/hash.h"

extern char** environ;  // NOLINT(readability-redundant-declaration): POSIX leaves it to the caller

namespace pycandle::c {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> compiler_words() {
  const char* chosen = std::getenv("CC");
  std::istringstream text(chosen != nullptr && *chosen != '\0' ? chosen : "cc");
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

fs::path folder() {
  const char *chosen = std::getenv("XDG_CACHE_HOME"), *home = std::getenv("HOME");
  fs::path cache = fs::temp_directory_path() / formatted("pycandle-{}", getuid());
  if (chosen != nullptr && *chosen == '/')
    cache = fs::path(chosen) / "pycandle";
  else if (home != nullptr && *home == '/')
    cache = fs::path(home) / ".cache" / "pycandle";
  std::error_code failure;
  fs::create_directories(cache / "c", failure);
  if (failure) {
    throw Error(ErrorCode::usage, "the folder for compiled programs cannot be made")
        .found(formatted("{}: {}", (cache / "c").string(), failure.message()))
        .hint("XDG_CACHE_HOME names another place for it");
  }
  return cache / "c";
}

// Code for this processor alone: what a home folder shared by several machines must not mix up.
std::string processor() {
  static const std::string kind = [] {
    std::ifstream file("/proc/cpuinfo");
    std::string line, found;
    while (std::getline(file, line) && !line.empty()) {
      if (line.rfind("flags", 0) == 0 || line.rfind("Features", 0) == 0 || line.rfind("model name", 0) == 0) found += line;
    }
    return found;
  }();
  return kind;
}

const char* const kFlags[] = {"-std=c11",        "-O3",   "-march=native", "-ffp-contract=fast",
                              "-fno-math-errno", "-fPIC", "-shared",       "-w"};

// Runs the compiler; its messages go to `log`.
void compile(const fs::path& source, const fs::path& library, const fs::path& log) {
  std::vector<std::string> words = compiler_words();
  const std::string name = words.front();
  for (const char* flag : kFlags) words.emplace_back(flag);
  for (const std::string& word : {source.string(), std::string("-o"), library.string(), std::string("-lm")})
    words.push_back(word);
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  pid_t child = 0;
  const int problem = posix_spawnp(&child, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (problem != 0) {
    throw Error(ErrorCode::usage, "the backend c needs a C compiler")
        .expected("$CC, or else cc in PATH")
        .found(formatted("{}: {}", name, std::error_code(problem, std::generic_category()).message()))
        .hint("install gcc or clang; --backend cpu needs none");
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return;
  std::string said = fs::exists(log) ? read_text(log) : std::string();
  said = said.substr(0, said.find('\n', 400));
  throw Error(ErrorCode::internal, formatted("{} does not compile the C file", name))
      .found(said)
      .hint("the file is " + source.string());
}

}  // namespace

Loaded::Loaded(const std::string& path) : handle_(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
  if (handle_ != nullptr) entry = reinterpret_cast<Entry>(dlsym(handle_, kEntry));
  if (entry == nullptr) {
    const char* why = dlerror();
    throw Error(ErrorCode::bad_input, "a compiled program cannot be loaded")
        .found(why != nullptr ? why : path)
        .hint("delete it; it is compiled again");
  }
}

Loaded::~Loaded() {
  if (handle_ != nullptr) dlclose(handle_);
}

std::shared_ptr<const Loaded> compiled(const std::string& text) {
  static std::mutex mutex;
  static std::map<std::string, std::weak_ptr<const Loaded>> loaded;
  std::string all = text + processor();
  for (const std::string& word : compiler_words()) all += " " + word;
  for (const char* flag : kFlags) all += flag;
  const std::string name = hash128(all).text();
  const std::lock_guard lock(mutex);
  if (std::shared_ptr<const Loaded> known = loaded[name].lock()) return known;
  const fs::path library = folder() / (name + ".so");
  if (!fs::exists(library)) {
    const std::string own = formatted("{}-{}", name, getpid());
    const fs::path source = folder() / (own + ".c"), made = folder() / (own + ".so"), log = folder() / (own + ".log");
    write_text(source, text);
    compile(source, made, log);
    fs::rename(made, library);
    fs::remove(source);
    fs::remove(log);
  }
  auto now = std::make_shared<const Loaded>(library.string());
  loaded[name] = now;
  return now;
}

}  // namespace pycandle::c
