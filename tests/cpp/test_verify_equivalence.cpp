// Two programs beside each other: can their difference show?
#include "verify/diagnosing/equivalence.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/core/catalogue.h"

namespace pycandle {
namespace {

// A running mean that starts at zero; the output knows nothing of it.
Program with_momentum(const std::string& momentum) {
  return parse_program(R"(ptir.v1 program "running"

input %0 "x": f32[3]

state %1 "mean": f32[3]

%2 = constant() {value = )" +
                           momentum + R"(, shape = [3], dtype = f32}: f32[3]
%3 = mul(%1, %2): f32[3]
%4 = add(%3, %0): f32[3]
%5 = exp(%0): f32[3]

output "output" %5

update %1 = %4
)",
                       catalogue());
}

ProgramComparison compared(const std::string& momentum) {
  const auto parameters = memory_parameters({{"mean", store(DType::f32, {3}, std::vector<double>{0, 0, 0})}});
  const Program recorded = with_momentum("0.9"), captured = with_momentum(momentum);
  return compare_programs({recorded, parameters}, {captured, parameters}, catalogue(),
                          {{store(DType::f32, {3}, std::vector<double>{1, -2, 3})}});
}

TEST(Equivalence, AMomentumThatShowsInTheSecondCallAloneIsADifference) {
  EXPECT_EQ(compared("0.9").likeness, Likeness::same);
  const ProgramComparison found = compared("0.99");
  EXPECT_EQ(found.likeness, Likeness::different) << found.text();
  ASSERT_TRUE(found.shown);
  EXPECT_EQ(found.shown->what, "the recorded inputs, second call");
  EXPECT_NE(found.shown->where.find("state mean"), std::string::npos) << found.shown->where;
}

}  // namespace
}  // namespace pycandle
