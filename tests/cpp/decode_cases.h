// What the tests of decode steps share: the programs of tests/passes/decoding, and numbers to run them with.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "pass_cases.h"
#include "passes/decode_step.h"
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

inline std::shared_ptr<const ParameterSource> some_weights(const Program& p) {
  std::map<std::string, Array> arrays;
  for (const Parameter& parameter : p.parameters) {
    const Sizes shape = evaluate(parameter.type.shape, {});
    std::vector<double> values(static_cast<size_t>(element_count(shape)));
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(3 * i + parameter.name.size()));
    arrays.emplace(parameter.name, store(parameter.type.dtype, shape, values));
  }
  return memory_parameters(std::move(arrays));
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
