// Which line of emitted code computes which node of the recorded program: codegen writes it, `pycandle report` reads it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "emit/header.h"

namespace pycandle::emit {

// As JSON: the program's structure, and a line for each node.
std::string line_map(const ProvenHeader&, const Program&);

// Emitted code as it is now.
struct MappedCode {
  std::filesystem::path file;
  std::string text;
  bool is_edited = false;       // by a person, since codegen wrote it
  std::vector<int32_t> lines;   // per node of the program, from 1; 0: none
};
// code: the header, or the folder of a project. bad_input when codegen did not write it, or wrote it for another program.
MappedCode read_mapped_code(const std::filesystem::path& code, const Program&);

}  // namespace pycandle::emit
