// The system's C compiler: C text becomes a library in the user's cache folder, named by its content, and is loaded.
#pragma once

#include <memory>
#include <string>

#include "backends/c/file.h"

namespace pycandle::c {

class Loaded {
 public:
  explicit Loaded(const std::string& path);
  ~Loaded();
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  Entry entry = nullptr;

 private:
  void* handle_ = nullptr;
};

// Compiles the text, or finds what an earlier call compiled. $CC, else cc. An error (usage) without a compiler.
std::shared_ptr<const Loaded> compiled(const std::string& text);

}  // namespace pycandle::c
