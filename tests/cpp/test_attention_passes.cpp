// The cases of tests/passes/{attention_scores,join_linears,push_slices,recognise_{masks,heads,linear,split}}.ptir compute the
// same before and after: without rounding, at several sizes, with padding of every kind.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sstream>

#include "backends/reference/reference.h"
#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "pass_cases.h"
#include "passes/passes.h"
#include "runtime/model.h"
#include "some_weights.h"

namespace pycandle {
namespace {

namespace fs = std::filesystem;

std::vector<Array> in_f64(const Program& p, const Model::Tensors& inputs, const ParameterSource& parameters) {
  RunRequest request;
  request.inputs = ordered_inputs(p, inputs);
  const std::vector<ReferenceMode> modes{{ReferenceMode::Kind::rounded, 0}, {ReferenceMode::Kind::f64, 0}};
  return run_reference_modes(decompose_to_primitives(p, catalogue()), parameters, modes, request).at(1).outputs;
}

void expect_equal(const Program& before, const Program& after, const Bindings& sizes, uint64_t seed) {
  const Model::Tensors inputs = random_inputs(before, seed, sizes);
  const auto parameters = some_weights(before);
  const std::vector<Array> expected = in_f64(before, inputs, *parameters), got = in_f64(after, inputs, *parameters);
  ASSERT_EQ(expected.size(), got.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const std::vector<double> a = load_double(expected[i]), b = load_double(got[i]);
    ASSERT_EQ(a.size(), b.size());
    for (size_t k = 0; k < a.size(); ++k) {
      ASSERT_EQ(std::isnan(a[k]), std::isnan(b[k])) << "output " << i << " at " << k;
      if (std::isnan(a[k])) continue;
      ASSERT_NEAR(a[k], b[k], 1e-12) << "output " << i << " at " << k;
    }
  }
}

class AttentionPass : public ::testing::TestWithParam<std::string> {};

TEST_P(AttentionPass, ComputesTheSameAtSeveralSizes) {
  const std::vector<PassCase> cases = read_cases(fs::path(PYCANDLE_TEST_DIR) / "passes" / (GetParam() + ".ptir"));
  ASSERT_FALSE(cases.empty());
  for (const PassCase& c : cases) {
    SCOPED_TRACE(c.title);
    const Program before = parse_program(c.before, catalogue(), c.title), after = parse_program(c.after, catalogue(), c.title);
    for (const int64_t batch : {1, 3}) {
      for (const int64_t length : {1, 2, 7, 9}) {
        Bindings sizes;
        for (const Symbol& s : before.symbols)
          sizes[s.name] = std::max(s.range.min, s.name == "s0" ? batch : s.name == "s1" ? length : length + 4);
        for (const uint64_t seed : {7, 8, 9}) expect_equal(before, after, sizes, seed);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Passes, AttentionPass,
                         ::testing::Values("attention_scores", "recognise_masks", "recognise_heads", "recognise_linear",
                                           "recognise_split", "push_slices", "join_linears"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace pycandle
