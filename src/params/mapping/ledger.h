// Every tensor of a checkpoint and every parameter of a program has exactly one fate.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/safetensors.h"
#include "import/importer.h"
#include "params/checkpoints/checkpoint.h"
#include "params/mapping/functions.h"
#include "params/mapping/rules.h"

namespace pycandle {

// A value that a program needs: a parameter, a buffer or a state.
struct Target {
  std::string name;
  std::vector<std::string> aliases;
  DType dtype = DType::f32;
  Sizes shape;
  bool is_needed = true;     // something in the program uses it
  bool is_carried = false;   // the recording holds its value: it is not in a state dict
};
std::vector<Target> targets_of(const Recording&);
// The tensors of a checkpoint as targets: to map one file onto the names of another.
std::vector<Target> targets_of(const Checkpoint&);

struct ParameterFate {
  Target target;
  Fate fate = Fate::missing;
  SourceExpr source;             // of all fates but carried and missing
  DType stored = DType::f32;     // what the checkpoint has
  std::string note;              // why it is missing or mismatched; the nearest names
};
struct TensorFate {
  std::string name;
  Fate fate = Fate::unused;
  std::vector<std::string> by;   // the parameters made of it
};

struct Ledger {
  std::vector<ParameterFate> parameters;  // in the program's order
  std::vector<TensorFate> tensors;        // in the checkpoint's

  size_t count(Fate) const;                // of parameters
  size_t unused() const;                   // tensors
  bool is_complete() const { return count(Fate::missing) == 0 && count(Fate::mismatched) == 0; }
};

// Where each parameter comes from: by the first rule that fits, else by its own name or another of its names.
Ledger make_ledger(const std::vector<Target>&, const Checkpoint&, const Rules&);
// bad_input that lists what is missing or mismatched, with the nearest names; `strict` refuses unused tensors too.
void refuse_incomplete(const Ledger&, const Checkpoint&, bool strict);

// The JSON text of it: docs/weights.md. counts_json: how many of each fate, without names.
std::string to_json(const Ledger&);
std::string counts_json(const Ledger&);

// The names of a list that are nearest to this one, best first.
std::vector<std::string> nearest_names(const std::string& name, const std::vector<std::string>& names, size_t count);
std::vector<std::string> nearest_names(const std::string& name, const Safetensors&, size_t count);

}  // namespace pycandle
