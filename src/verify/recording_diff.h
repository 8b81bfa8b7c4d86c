// What differs between two recordings: modules and ops, weights, and the values that PyTorch computed. After training, another
// torch or an edit in Python.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/progress.h"
#include "ir/op_def.h"

namespace pycandle {

// A fact about the whole: "torch", "2.11.0", "2.12.0".
struct ChangedFact {
  std::string what, first, second;
};

// A module call whose own ops differ, or that only one recording has.
struct ChangedModule {
  enum class Kind { changed, only_first, only_second } kind;
  std::string path, class_name;
  std::vector<std::string> first, second;  // ops that the other one lacks: gelu(approximate="none") f32[s0, 16]
};

// A tensor with one name in both.
struct ChangedTensor {
  std::string name;
  std::string what;                        // "only in the first", "f32[2, 3] and f32[2, 4]"; empty: values differ
  double largest = 0, relative = 0;        // the largest difference; its RMS beside that of the first
  int64_t differing = 0, elements = 0;
};

struct ChangedTensors {
  std::vector<ChangedTensor> changed;      // in the order of the first program
  size_t equal = 0;
};

struct RecordingDifference {
  std::string first_name, second_name;
  std::vector<ChangedFact> facts;
  std::string structure;                   // where the programs differ first; empty: they compute the same
  std::vector<ChangedModule> modules;
  ChangedTensors weights, inputs, values;
  bool is_empty() const {
    return facts.empty() && structure.empty() && modules.empty() && weights.changed.empty() && inputs.changed.empty() &&
           values.changed.empty();
  }
};
RecordingDifference compare_recordings(const std::filesystem::path& first, const std::filesystem::path& second, const OpTable&,
                                       const ProgressFn& = {});

}  // namespace pycandle
