#include "cli/child.h"

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <cstdlib>

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

bool succeeds(const std::vector<std::string>& command) { return was_fine(std::system(shell_line(command).c_str())); }

}  // namespace pycandle::cli
