// The proof of a decode step: a prompt, then step by step, equals the whole forward pass at every position. Sequences of
// different lengths share a batch; each schedule takes another number of tokens a step.   docs/decoding.md
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "import/importer.h"
#include "ir/tap_id.h"
#include "passes/decode_step.h"
#include "passes/pipeline.h"
#include "runtime/decoder.h"

namespace pycandle {

struct DecodeProofOptions {
  std::string backend = "reference";
  PipelineOptions pipeline;
  std::vector<int64_t> chunks{1, 3, 16};  // tokens a step, after the prompt
  int64_t length = 24;                     // of the longest sequence; a model with fewer positions: as many as it has
};

// The first value that is not the forward pass's: the earliest token, and of that the first layer.
struct WrongToken {
  int64_t sequence = 0, position = 0;
  std::string value;                       // a tap, or "output:NAME"
  std::string op, path, place, source;     // the op that gives it, and its line in Python
  std::string why, cause;                  // cause: empty when nothing is known
};

struct DecodeSchedule {
  int64_t chunk = 0;
  size_t values = 0, judged = 0;           // taps and outputs; times tokens
  double worst = 0;                        // the largest error, in rounding floors (of kRmsFactor that are allowed)
  std::string worst_value;
  std::optional<WrongToken> wrong;
};

struct DecodeProof {
  std::string name, backend;
  std::vector<int64_t> lengths, prompts;   // of each sequence
  std::vector<DecodeSchedule> schedules;
  bool passed() const;
};

using NamedArrays = std::map<std::string, Array>;

// inputs: of the whole program, [2, length …]; decode_inputs() makes some.
DecodeProof prove_decoding(const Program&, const DecodeStep&, const OpTable&, const std::shared_ptr<const ParameterSource>&,
                           const NamedArrays& inputs, const DecodeProofOptions& = {});
// Two sequences of this length: tokens at random in the recorded range, masks as recorded, the rest at random.
NamedArrays decode_inputs(const Program&, const DecodeStep&, const NamedArrays& recorded, int64_t length);
// The same of a recording in program form, of the length that the proof takes.
NamedArrays decode_inputs(const Recording&, const DecodeStep&, const DecodeProofOptions&);
int64_t proof_length(const DecodeStep&, const DecodeProofOptions&);

}  // namespace pycandle
