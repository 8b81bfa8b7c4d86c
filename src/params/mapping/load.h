// A checkpoint as the weights of a program, and the ledger of whatever was loaded.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "params/mapping/ledger.h"
#include "params/parameters.h"

namespace pycandle {

// A checkpoint, and how its tensors become parameters.
struct CheckpointRequest {
  std::filesystem::path checkpoint;
  std::filesystem::path rules, adapter;  // empty: none
  CheckpointOptions reading;
  bool strict = false;                   // a tensor that nothing uses is an error
};

struct FittedCheckpoint {
  Checkpoint checkpoint;                 // with the adapter's tensors
  Ledger ledger;                         // may be incomplete: refuse_incomplete
};
FittedCheckpoint fit_checkpoint(const std::vector<Target>&, const CheckpointRequest&);

// The weights read from the checkpoint when they are asked for, as the ledger says; `own` gives those that are carried. What
// is not in the file as the program needs it (another dtype, transposed, merged) is made once and kept.
std::shared_ptr<const ParameterSource> checkpoint_parameters(FittedCheckpoint, std::shared_ptr<const ParameterSource> own);

// Where the weight files of a recording may lie.
ParameterFiles files_of(const Recording&);
// The fate of every parameter and of every tensor in the files that the recording itself names. Reads no values.
Ledger recorded_ledger(const Recording&);

}  // namespace pycandle
