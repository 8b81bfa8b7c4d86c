#include "base/error.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace pycandle {

namespace {
// A fact already set is kept: the innermost place knows best.
void set_once(std::string& fact, std::string text) {
  if (fact.empty()) fact = std::move(text);
}
}  // namespace

Error& Error::expected(std::string text) {
  set_once(expected_, std::move(text));
  return *this;
}
Error& Error::found(std::string text) {
  set_once(found_, std::move(text));
  return *this;
}
Error& Error::op(std::string name) {
  set_once(op_, std::move(name));
  return *this;
}
Error& Error::module_path(std::string path) {
  set_once(module_path_, std::move(path));
  return *this;
}
Error& Error::hint(std::string text) {
  set_once(hint_, std::move(text));
  return *this;
}

Error& Error::python(std::string file_line, std::string source_line) {
  if (!file_line_.empty()) return *this;  // the two belong together
  file_line_ = std::move(file_line);
  source_line_ = std::move(source_line);
  return *this;
}

std::string Error::text() const {
  std::string place = module_path_;
  if (!file_line_.empty()) place += (place.empty() ? "" : ", ") + file_line_;
  if (!source_line_.empty()) place += (place.empty() ? "" : ":  ") + source_line_;

  const std::vector<std::pair<std::string, const std::string&>> facts = {
      {"in", place}, {"op", op_}, {"expected", expected_}, {"found", found_}, {"hint", hint_}};
  size_t width = 5;
  for (const auto& [label, fact] : facts)
    if (!fact.empty()) width = std::max(width, label.size());

  std::string out = message_;
  for (const auto& [label, fact] : facts) {
    if (fact.empty()) continue;
    out.append("\n  ").append(label).append(width - label.size() + 1, ' ').append(fact);
  }
  return out;
}

const char* Error::what() const noexcept {
  try {
    what_ = text();
    return what_.c_str();
  } catch (...) {
    return message_.c_str();
  }
}

int exit_status(ErrorCode code) {
  switch (code) {
    case ErrorCode::gap:
    case ErrorCode::verdict: return 1;
    case ErrorCode::usage:
    case ErrorCode::bad_input: return 2;
    case ErrorCode::internal: return 3;
  }
  return 3;
}

const char* to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::gap: return "gap";
    case ErrorCode::verdict: return "verdict";
    case ErrorCode::usage: return "usage";
    case ErrorCode::bad_input: return "bad_input";
    case ErrorCode::internal: return "internal";
  }
  return "internal";
}

void internal_error(const std::string& message) { throw Error(ErrorCode::internal, message); }

}  // namespace pycandle
