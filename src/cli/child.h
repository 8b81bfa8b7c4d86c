// Other programs, run and waited for.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace pycandle::cli {

// What a program prints, without the last line's end; nullopt when it fails. Its errors are not shown.
std::optional<std::string> output_of(const std::vector<std::string>& command);
std::optional<std::string> ask_python(const std::string& python, const std::string& code);

// Runs a program that shows its own errors; true when it exits with 0.
bool succeeds(const std::vector<std::string>& command);

}  // namespace pycandle::cli
