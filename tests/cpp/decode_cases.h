// What the tests of decode steps share: the programs of tests/passes/decoding, and numbers to run them with.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>

#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "pass_cases.h"
#include "passes/decode_step.h"
#include "some_weights.h"
#include "verify/decode_proof.h"

namespace pycandle {

inline std::vector<PassCase> decode_cases(const std::string& file) {
  return read_cases(std::filesystem::path(PYCANDLE_TEST_DIR) / "passes" / "decoding" / (file + ".ptir"));
}

// The program of causal.ptir with this name.
inline Program causal_program(const std::string& name) {
  for (const PassCase& c : decode_cases("causal")) {
    Program p = parse_program(c.before, catalogue(), c.title);
    if (p.name == name) return p;
  }
  throw Error(ErrorCode::internal, "causal.ptir has no program " + name);
}

// Tokens, and where there is a mask one that leaves out a key of each sequence.
inline NamedArrays proof_inputs(const Program& p, const DecodeStep& step, int64_t length) {
  const Array mask = store(DType::i64, {2, 5}, std::vector<int64_t>{1, 1, 0, 1, 1, 1, 0, 1, 1, 1});
  return decode_inputs(p, step, {{"mask", mask}}, length);
}

inline DecodeProof proof_of(const Program& p, const DecodeStep& step, const std::string& backend = "reference") {
  DecodeProofOptions options;
  options.backend = backend;
  return prove_decoding(p, step, catalogue(), some_weights(p), proof_inputs(p, step, proof_length(step, options)), options);
}

}  // namespace pycandle
