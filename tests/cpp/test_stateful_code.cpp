// Decode steps as source code: what depends on positions is computed in the step, and the code that is emitted for it is it.
#include <gtest/gtest.h>

#include "decode_cases.h"
#include "emit/cpp/printer.h"
#include "emit/proof/proof.h"
#include "passes/pipeline.h"

namespace pycandle {
namespace {

// In program form, with outputs that are named as Python's are.
Program in_program_form(Program p) {
  for (size_t i = 0; i < p.outputs.size(); ++i)
    p.outputs[i].name = p.outputs.size() == 1 ? "output" : "output." + std::to_string(i);
  return run_program_pipeline(std::move(p), catalogue());
}

std::string header_of(const DecodeStep& step) {
  return emit::cpp::print_header(emit::recover(step.step, catalogue())).header.text();
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from << " is not in\n" << text;
  return at == std::string::npos ? text : text.replace(at, from.size(), to);
}

// A program may need an encoder, whose values are computed once; then there is no code for it, and that is said.
std::optional<DecodeStep> step_in_code(const Program& p) {
  try {
    return decode_step_in_code(p, catalogue());
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::gap) << e.what();
    EXPECT_FALSE(derive_decode_step(p, catalogue()).setup.inputs.empty()) << p.name << ": " << e.what();
    return std::nullopt;
  }
}

TEST(StatefulCode, IsTheForwardPassAndTheDerivedStep) {
  size_t written = 0;
  for (const PassCase& c : decode_cases("causal")) {
    const Program p = in_program_form(parse_program(c.before, catalogue(), c.title));
    SCOPED_TRACE(p.name);
    const auto step = step_in_code(p);
    if (!step) continue;
    ++written;
    const DecodeProof proof = proof_of(p, *step);
    for (const DecodeSchedule& s : proof.schedules) EXPECT_FALSE(s.wrong) << s.wrong->value << ": " << s.wrong->why;
    EXPECT_NO_THROW(emit::proof::prove(header_of(*step), step->step));
  }
  EXPECT_GE(written, 8u);
}

TEST(StatefulCode, ThatIsNotTheStepIsRefused) {
  const DecodeStep step = decode_step_in_code(in_program_form(causal_program("grouped")), catalogue());
  const std::string header = header_of(step);
  const auto refusal = [&](const std::string& from, const std::string& to) -> std::string {
    try {
      emit::proof::prove(replaced(header, from, to), step.step);
    } catch (const Error& e) {
      return e.text();
    }
    return {};
  };
  EXPECT_EQ(refusal("cache.key.append", "cache.key.append"), "");
  const std::pair<const char*, const char*> slips[] = {
      {"{lengths, \"value\"}", "{lengths, \"key\"}"},         // one cache for two
      {"{lengths, \"value\"}", "{lengths, \"values\"}"},      // under another name
      {"cache.key.append", "cache.value.append"},             // into another one
      {"cache.lengths.unsqueeze(1) + ", ""},                  // positions from 0 on
      {"cache.key_mask.append(mask.to(DType::boolean), 1)", "mask.to(DType::boolean)"},  // the new tokens alone
      {"boolean), 1)", "boolean))"},                          // along another axis
      {"Cache& cache", "Tensor& cache"},
      {"cache.lengths,", "cache.length,"},
      {"CacheRows key", "CacheList key"},
  };
  for (const auto& [from, to] : slips) EXPECT_NE(refusal(from, to), "") << from << " → " << to;
}

}  // namespace
}  // namespace pycandle
