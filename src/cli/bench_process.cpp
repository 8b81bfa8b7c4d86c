#include "cli/bench_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fstream>
#include <sstream>

#include "base/error.h"
#include "cli/child.h"

namespace pycandle::cli {
namespace {

// The environment with the number of threads said to every library that asks it.
std::vector<std::string> environment_for(int threads) {
  constexpr std::array kNames = {"OMP_NUM_THREADS", "MKL_NUM_THREADS", "RAYON_NUM_THREADS", "PYCANDLE_THREADS"};
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    bool ours = false;
    for (const char* name : kNames) ours |= text.starts_with(std::string(name) + "=");
    if (!ours) all.push_back(text);
  }
  for (const char* name : kNames) all.push_back(fmt::format("{}={}", name, threads));
  return all;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> all;
  all.reserve(texts.size() + 1);
  for (std::string& text : texts) all.push_back(text.data());
  all.push_back(nullptr);
  return all;
}

std::string last_lines(const std::filesystem::path& file, size_t count) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::string text;
  for (size_t i = lines.size() > count ? lines.size() - count : 0; i < lines.size(); ++i) text += lines[i] + "\n";
  return text.empty() ? "it said nothing" : text.substr(0, text.size() - 1);
}

}  // namespace

double monotonic_seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

RunnerProcess::RunnerProcess(const std::vector<std::string>& command, int threads, const std::filesystem::path& log)
    : name_(command.at(0)), log_(log) {
  std::signal(SIGPIPE, SIG_IGN);  // one that died is an error with a reason
  std::array<int, 2> in{}, out{};
  if (pipe2(in.data(), O_CLOEXEC) != 0) throw Error(ErrorCode::internal, "no pipe for a runner");
  if (pipe2(out.data(), O_CLOEXEC) != 0) throw Error(ErrorCode::internal, "no pipe for a runner");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  std::vector<std::string> words = command, environment = environment_for(threads);
  started_ = monotonic_seconds();
  const int problem = posix_spawnp(&pid_, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                                   pointers(environment).data());
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]);
  close(out[1]);
  to_ = fdopen(in[1], "w");
  from_ = fdopen(out[0], "r");
  if (problem != 0) {
    pid_ = -1;
    std::fclose(to_);
    std::fclose(from_);
    throw Error(ErrorCode::bad_input, "a runner could not be started").found(words[0] + ": " + std::strerror(problem));
  }
}

RunnerProcess::~RunnerProcess() {
  std::fclose(to_);  // the end of its questions is the end of it
  std::fclose(from_);
  if (pid_ > 0) waitpid(pid_, nullptr, 0);
}

void RunnerProcess::ask(const std::string& line) {
  if (std::fputs((line + "\n").c_str(), to_) < 0 || std::fflush(to_) != 0) gone();
}

Json RunnerProcess::answer() {
  char* line = nullptr;
  size_t size = 0;
  const ssize_t length = getline(&line, &size, from_);
  const std::string text = length > 0 ? std::string(line, static_cast<size_t>(length)) : "";
  std::free(line);
  if (length <= 0) gone();
  Json answer = Json::parse(text, nullptr, false);
  if (answer.is_discarded()) {
    throw Error(ErrorCode::bad_input, "a runner's answer is not understood").expected("a line of JSON").found(text);
  }
  if (answer.is_object() && answer.contains("error")) {
    throw Error(ErrorCode::bad_input, answer["error"].get<std::string>()).hint(answer.value("hint", ""));
  }
  return answer;
}

void RunnerProcess::gone() {
  int status = 0;
  if (waitpid(pid_, &status, 0) == pid_) pid_ = -1;
  if (pid_ < 0 && WIFSIGNALED(status)) throw died_of_signal(name_, WTERMSIG(status)).found(last_lines(log_, 4));
  throw Error(ErrorCode::bad_input, name_ + " ended without an answer").found(last_lines(log_, 4));
}

double RunnerProcess::peak_megabytes() const {
  std::ifstream status(fmt::format("/proc/{}/status", pid_));
  for (std::string line; std::getline(status, line);) {
    if (!line.starts_with("VmHWM:")) continue;
    double kilobytes = 0;
    std::istringstream(line.substr(6)) >> kilobytes;
    return kilobytes * 1024e-6;
  }
  return 0;
}

}  // namespace pycandle::cli
