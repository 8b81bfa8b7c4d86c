// A model as a C++ header.
#pragma once

#include <string>

#include "emit/header.h"
#include "emit/tree.h"

namespace pycandle::emit::cpp {

struct PrintedModel {
  std::string name;            // of the class
  std::string name_space;
  PrintedHeader header;        // the whole file
  std::vector<std::string> notes;
  bool is_random = false;      // some of its numbers are drawn
  bool has_states = false;     // forward changes buffers
  bool has_cache = false;      // it is a decode step: forward() takes new tokens and a Cache
};

// name: of the model's class; Python's when empty. A name that is none in C++ is a usage error.
PrintedModel print_header(const ModelTree&, const std::string& name = {});

}  // namespace pycandle::emit::cpp
