// What `pycandle weights` and `pycandle.weights` do, from paths to files.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "params/mapping/extract.h"
#include "params/mapping/load.h"
#include "params/mapping/propose.h"

namespace pycandle {

// The side that needs weights: a manifest (or its folder), or another checkpoint whose names and shapes are wanted.
struct Needed {
  std::optional<Recording> recording;
  std::vector<Target> targets;
};
Needed open_needed(const std::filesystem::path&);

struct ExtractRequest {
  CheckpointRequest from;
  std::filesystem::path needed, out;
  std::filesystem::path ledger;                     // empty: none
  std::optional<DType> dtype;                       // of floating-point weights; otherwise the program's
  uint64_t shard_bytes = 0;                         // at most so many in a file; 0: one file
  bool attach = true;                               // a file in the manifest's folder is named in the manifest
};
struct ExtractResult {
  Checkpoint checkpoint;
  Ledger ledger;
  Extracted written;
  bool attached = false;
};
ExtractResult extract_weights(const ExtractRequest&, const ProgressFn& = {});

struct MapRequest {
  std::filesystem::path checkpoint, needed;
  CheckpointOptions reading;
  Heads heads;                                      // 0: found in files
};
struct MapResult {
  Proposals proposals;
  std::string rules;                                // the text of the rules file
  Ledger ledger;                                    // with these rules
  std::string hint;                                 // where a section must be chosen first
  bool is_complete() const { return ledger.is_complete() && proposals.ambiguous.empty(); }
};
MapResult map_weights(const MapRequest&);

}  // namespace pycandle
