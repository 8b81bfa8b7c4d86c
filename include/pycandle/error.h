// The one error type. It says what was expected, what was found, where in the Python source, and what to do.
//
//   throw Error(ErrorCode::bad_input, "the trace file is truncated")
//       .expected("1024 bytes").found("310 bytes").hint("record the model again");
#pragma once

#include <exception>
#include <string>

#include "pycandle/api.h"

namespace pycandle {

// Decides the exit status: gap and verdict are 1, usage and bad_input 2, internal 3.
enum class ErrorCode { gap, verdict, usage, bad_input, internal };

class PYCANDLE_API Error : public std::exception {
 public:
  Error(ErrorCode code, std::string message) : code_(code), message_(std::move(message)) {}

  // Each returns *this so that facts can be chained; a fact already set is kept (the innermost place knows best).
  Error& expected(std::string text);
  Error& found(std::string text);
  Error& op(std::string name);
  Error& module_path(std::string path);
  Error& python(std::string file_line, std::string source_line = {});
  Error& hint(std::string text);

  ErrorCode code() const { return code_; }
  const std::string& message() const { return message_; }
  const std::string& expected() const { return expected_; }
  const std::string& found() const { return found_; }
  const std::string& op() const { return op_; }
  const std::string& module_path() const { return module_path_; }
  const std::string& file_line() const { return file_line_; }
  const std::string& source_line() const { return source_line_; }
  const std::string& hint() const { return hint_; }

  // The whole error as a person reads it, several lines, without the leading "error: ".
  std::string text() const;
  const char* what() const noexcept override;

 private:
  ErrorCode code_;
  std::string message_, expected_, found_, op_, module_path_, file_line_, source_line_, hint_;
  mutable std::string what_;
};

PYCANDLE_API int exit_status(ErrorCode code);
PYCANDLE_API const char* to_string(ErrorCode code);  // "gap", "bad_input", ...

// An impossible state of our own program: ErrorCode::internal.
[[noreturn]] PYCANDLE_API void internal_error(const std::string& message);
inline void require(bool holds, const char* message) {
  if (!holds) internal_error(message);
}

}  // namespace pycandle
