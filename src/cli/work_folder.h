// A folder for the files of one command. It goes away afterwards, unless it is the user's.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/error.h"

namespace pycandle::cli {

class WorkFolder {
 public:
  explicit WorkFolder(const std::string& kept = {}) : path(kept), kept_(!kept.empty()) {
    if (kept_) {
      std::filesystem::create_directories(path);
      return;
    }
    std::string name = (std::filesystem::temp_directory_path() / "pycandle-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw Error(ErrorCode::bad_input, "no temporary folder could be made").found(name);
    path = name;
  }
  ~WorkFolder() {
    std::error_code ignored;
    if (!kept_) std::filesystem::remove_all(path, ignored);
  }
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;
  std::filesystem::path path;

 private:
  bool kept_;
};

}  // namespace pycandle::cli
