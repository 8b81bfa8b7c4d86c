#include "cli/child.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace pycandle::cli {
namespace {

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

std::string shell_line(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += (line.empty() ? "" : " ") + shell_quoted(word);
  return line;
}

bool was_fine(int status) { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }

}  // namespace

std::optional<std::string> output_of(const std::vector<std::string>& command) {
  FILE* pipe = popen((shell_line(command) + " 2>/dev/null").c_str(), "r");
  if (pipe == nullptr) return std::nullopt;
  std::string out;
  std::array<char, 256> chunk{};
  while (const size_t got = std::fread(chunk.data(), 1, chunk.size(), pipe)) out.append(chunk.data(), got);
  if (!was_fine(pclose(pipe))) return std::nullopt;
  out.erase(out.find_last_not_of('\n') + 1);
  return out;
}

std::optional<std::string> ask_python(const std::string& python, const std::string& code) {
  return output_of({python, "-c", code});
}

namespace {

// Ctrl-C goes to the child, as in system(3): its own message and status count.
class InterruptsIgnored {
 public:
  InterruptsIgnored() : interrupt_(std::signal(SIGINT, SIG_IGN)), quit_(std::signal(SIGQUIT, SIG_IGN)) {}
  ~InterruptsIgnored() {
    std::signal(SIGINT, interrupt_);
    std::signal(SIGQUIT, quit_);
  }
  InterruptsIgnored(const InterruptsIgnored&) = delete;
  InterruptsIgnored& operator=(const InterruptsIgnored&) = delete;

 private:
  void (*interrupt_)(int);
  void (*quit_)(int);
};

pid_t forwarded_to = -1;
void forward(int signal) {
  if (forwarded_to > 0) kill(forwarded_to, signal);
}

pid_t start(const std::vector<std::string>& command) {
  std::vector<std::string> words = command;
  std::vector<char*> arguments;
  arguments.reserve(words.size() + 1);
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int problem = posix_spawnp(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (problem != 0) {
    throw Error(ErrorCode::usage, "a program could not be started").found(command[0] + ": " + std::strerror(problem));
  }
  return pid;
}

}  // namespace

int exit_status_of(const std::vector<std::string>& command) {
  forwarded_to = start(command);
  const InterruptsIgnored ignored;
  std::signal(SIGTERM, forward);
  std::signal(SIGHUP, forward);
  int status = 0;
  while (waitpid(forwarded_to, &status, 0) < 0 && errno == EINTR) {
  }
  forwarded_to = -1;
  if (WIFSIGNALED(status)) throw died_of_signal(command[0], WTERMSIG(status));
  return WEXITSTATUS(status);
}

Error died_of_signal(const std::string& program, int signal) {
  const auto hint = [signal]() -> std::string {
    switch (signal) {
      case SIGILL:
        return "torch 2.11 crashes in bf16 layers on processors with AMX: set ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16; "
               "pycandle doctor says whether this is one";
      case SIGKILL: return "probably memory ran out: try smaller inputs, --golden-budget, or a machine with more";
      case SIGSEGV:
      case SIGBUS:
      case SIGFPE:
      case SIGABRT: return "a native extension that the model uses crashed: PYTHONFAULTHANDLER=1 shows the Python line";
      default: return "";
    }
  }();
  return Error(ErrorCode::bad_input, fmt::format("{} died of SIG{} ({})", program, sigabbrev_np(signal), strsignal(signal)))
      .hint(hint);
}

bool followed(const std::vector<std::string>& command, const std::function<void(std::string_view line)>& on_line) {
  const InterruptsIgnored ignored;
  FILE* pipe = popen((shell_line(command) + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return false;
  std::string line;
  std::array<char, 256> chunk{};
  while (std::fgets(chunk.data(), chunk.size(), pipe) != nullptr) {
    line += chunk.data();
    if (line.back() != '\n') continue;
    line.pop_back();
    on_line(line);
    line.clear();
  }
  if (!line.empty()) on_line(line);
  return was_fine(pclose(pipe));
}

}  // namespace pycandle::cli
