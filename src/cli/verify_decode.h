// pycandle verify --decode: is the derived decode step the forward pass?
#pragma once

#include <string>

#include "cli/command.h"
#include "verify/decode_proof.h"

namespace pycandle::cli {

// Derives, proves and prints; sets the status. cache: the dtype of its rows.
void run_decode_proof(const std::string& model, const std::string& cache, const DecodeProofOptions&, Context&);

}  // namespace pycandle::cli
