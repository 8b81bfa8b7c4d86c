// pycandle verify --decode: is the derived decode step the forward pass?
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "params/mapping/load.h"
#include "verify/decode_proof.h"

namespace pycandle::cli {

// Derives, proves and prints; sets the status. cache: the dtype of its rows. checkpoint: where the weights are, if not in the
// recording.
void run_decode_proof(const std::string& model, const std::string& cache, const std::optional<CheckpointRequest>& checkpoint,
                      const DecodeProofOptions&, Context&);

}  // namespace pycandle::cli
