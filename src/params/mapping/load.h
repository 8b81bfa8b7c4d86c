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

// Where a value is kept that is not in the file as the program needs it: of another dtype, transposed, merged. On the disk it
// can leave memory as mapped weights do.
enum class MadeValues { in_memory, on_disk };
// The weights read from the checkpoint when they are asked for, as the ledger says; `own` gives those that are carried.
std::shared_ptr<const ParameterSource> checkpoint_parameters(FittedCheckpoint, std::shared_ptr<const ParameterSource> own,
                                                             MadeValues);

// Where the weight files of a recording may lie.
ParameterFiles files_of(const Recording&);
// The fate of every parameter and of every tensor in the files that the recording itself names, which `source` opened. Reads
// no values.
Ledger recorded_ledger(const Recording&, const ParameterSource& source);

}  // namespace pycandle
