// The files of tests/passes: programs before and after a pass.
#pragma once

#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"

namespace pycandle {

struct PassCase {
  std::string title, before, after;
};

inline std::vector<PassCase> read_cases(const std::filesystem::path& file) {
  std::vector<PassCase> cases;
  std::string* part = nullptr;
  std::istringstream lines(read_text(file));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("// before: ")) {
      cases.push_back({line.substr(11), {}, {}});
      part = &cases.back().before;
    } else if (line == "// after") {
      part = &cases.at(cases.size() - 1).after;
    } else if (part) {
      *part += line + "\n";
    }
  }
  return cases;
}

}  // namespace pycandle
