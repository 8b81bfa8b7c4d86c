// The tests that ship with PyCandle, as they lie on the disk: programs with their inputs and PyTorch's values.
//
//   cases.jsonl   a line for each: {"op", "name", "program", "parameters": [["w", "f32", [3, 4]]], "states": […],
//                 "calls": [{"inputs": [["f32", [3]]], "outputs": […], "states": […]}]}
//   tensors.bin   the arrays of all lines, in that order, one after another
//
// tests/backend/make_pack.py writes it.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/array.h"
#include "ir/graph.h"

namespace pycandle {

// One call: what goes in, and what PyTorch gave.
struct PackedCall {
  std::vector<Array> inputs, outputs, states;  // states: after the call
};

struct PackedCase {
  std::string op, name, program;
  bool is_random = false;                      // its values are drawn: only their types are known
  std::map<std::string, Array> parameters;     // and the states before the first call, by name
  std::vector<PackedCall> calls;
};

std::vector<PackedCase> read_pack(const std::filesystem::path& folder);

}  // namespace pycandle
