// Other programs, run and waited for.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace pycandle::cli {

// What a program prints, without the last line's end; nullopt when it fails. Its errors are not shown.
std::optional<std::string> output_of(const std::vector<std::string>& command);
std::optional<std::string> ask_python(const std::string& python, const std::string& code);

// Runs a program and hands over each line that it prints, errors too; true when it exits with 0.
bool followed(const std::vector<std::string>& command, const std::function<void(std::string_view line)>& on_line);

// Runs a program in the foreground, with this one's input and output; its exit status. Throws when it cannot be started
// and when a signal ends it.
int exit_status_of(const std::vector<std::string>& command);

// "Python died of SIGILL (Illegal instruction)", with the likely reason as the hint.
Error died_of_signal(const std::string& program, int signal);

}  // namespace pycandle::cli
