// Is the decode step of a model the forward pass? Text never comes from one that was not proven.   docs/generation.md
#pragma once

#include "runtime/model.h"
#include "verify/decode_proof.h"

namespace pycandle {

// `step` is the one of `program`, which is the model's, or that with rounded caches. Fine when the model is a bundle whose step
// was proven as it was made; else the proof is run, once: one that passed is kept in the user's cache, by the content of
// program and step, the files of the weights, the backend and the library. A proof that fails is an Error (verdict).
void require_proven(const Model&, const LoadOptions&, const Program& program, const DecodeStep& step);

// Refuses a proof that failed: says where.
void refuse_wrong_step(const DecodeProof&, const std::string& so);

}  // namespace pycandle
