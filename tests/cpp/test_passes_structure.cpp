// When two programs are the same.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ops/core/catalogue.h"
#include "passes/structure.h"

namespace pycandle {
namespace {

Program parsed(const std::string& text) { return parse_program(text, catalogue()); }

const char* kProgram = R"(ptir.v1 program "one"
symbol s0 in [1, inf) example 2 from "x" axis 0
input %0 "x": f32[s0, 4]
parameter %1 "norm.weight": f32[4]
%2 = neg(%0): f32[s0, 4]
%3 = exp(%0): f32[s0, 4]
%4 = layer_norm(%2, %1) {normalized_shape = [4], eps = 1e-05}: f32[s0, 4]
%5 = add(%4, %3): f32[s0, 4]
output "output" %5
)";

TEST(Structure, IsTheSameWhateverNodesAreOrderedAndSizesAreNamed) {
  const Program other = parsed(R"(ptir.v1 program "two"
symbol batch in [1, inf) example 7 from "values" axis 0
input %0 "values": f32[batch, 4]
parameter %1 "norm.weight": f32[4]
%2 = exp(%0): f32[batch, 4]
%3 = neg(%0): f32[batch, 4]
%4 = layer_norm(%3, %1) {normalized_shape = [4], eps = 1e-05}: f32[batch, 4]
%5 = add(%4, %2): f32[batch, 4]
output "output" %5
)");
  EXPECT_EQ(first_difference(parsed(kProgram), other), "");
  EXPECT_EQ(structure_of(parsed(kProgram)), structure_of(other));
}

std::string changed(const std::string& from, const std::string& to) {
  std::string text = kProgram;
  const size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos);
  return first_difference(parsed(kProgram), parsed(text.replace(place, from.size(), to)));
}

TEST(Structure, DiffersWhereAnAttributeDoes) {
  EXPECT_EQ(changed("eps = 1e-05", "eps = 1e-06"), "output: layer_norm (f32[i0a0, 4]) has eps = 1e-05, the other 1e-06");
}

TEST(Structure, DiffersWhereAnOpDoes) {
  EXPECT_EQ(changed("%3 = exp(%0)", "%3 = sin(%0)"), "output: exp (f32[i0a0, 4]), the other sin (f32[i0a0, 4])");
}

TEST(Structure, DiffersWhereAParameterDoes) {
  EXPECT_EQ(changed("norm.weight", "norm.scale"),
            "output: layer_norm (f32[i0a0, 4]) has weight = parameter norm.weight (f32[4]), the other parameter norm.scale "
            "(f32[4])");
}

TEST(Structure, ASizeCountsByTheFirstInputThatHasIt) {
  const std::string bound_by_x = R"(ptir.v1 program "one"
symbol s0 in [1, inf) example 2 from "x" axis 1
input %0 "x": f32[4, s0]
input %1 "y": f32[s0]
%2 = exp(%0): f32[4, s0]
output "output" %2
)";
  std::string bound_by_y = bound_by_x;
  bound_by_y.replace(bound_by_y.find("\"x\" axis 1"), 10, "\"y\" axis 0");
  EXPECT_EQ(first_difference(parsed(bound_by_x), parsed(bound_by_y)), "");
}

TEST(Structure, DiffersWhereOperandsAreExchanged) { EXPECT_NE(changed("add(%4, %3)", "add(%3, %4)"), ""); }

}  // namespace
}  // namespace pycandle
