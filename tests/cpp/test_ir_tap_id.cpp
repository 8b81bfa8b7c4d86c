// A tap's id: one parser, one printer.
#include "ir/tap_id.h"

#include <gtest/gtest.h>

namespace pycandle {
namespace {

using Kind = TapId::Kind;

TEST(TapId, HasTheSameTextAgain) {
  for (const char* text :
       {"@0/output", "h.3.mlp@0/output", "h.3.mlp@12/output.0.key", "h.3.mlp@0/input.x", "fc@0/input", "node:17", "input:ids",
        "output:logits", "state:cache.k", "updated:cache.k", "whole run:updated:cache.k"}) {
    EXPECT_EQ(TapId::parse(text).text(), text);
  }
}

TEST(TapId, HasParts) {
  EXPECT_EQ(TapId::parse("h.3.mlp@12/output.0.key"), TapId(Kind::module_output, "h.3.mlp", 12, "0.key"));
  EXPECT_EQ(TapId::parse("@0/input.x"), TapId(Kind::module_input, "", 0, "x"));
  EXPECT_EQ(TapId::parse("updated:cache.k"), TapId(Kind::state_after, "cache.k"));
  EXPECT_EQ(TapId::parse("h@1/output.2").module_call(), "h@1");
  EXPECT_EQ(TapId::parse("node:17").module_call(), "");
}

TEST(TapId, IsTheOutputOfTheFirstCallWhereLessIsSaid) {
  EXPECT_EQ(TapId::parse("h.0.mlp").text(), "h.0.mlp@0/output");
  EXPECT_EQ(TapId::parse("h.0.mlp@1").text(), "h.0.mlp@1/output");
}

TEST(TapId, LeavesOddNamesOfModulesWhole) {
  EXPECT_EQ(TapId::parse("a/b@home@0/output").module, "a/b@home");
  EXPECT_EQ(TapId::parse("x@0/outputs@2/output.1"), TapId(Kind::module_output, "x@0/outputs", 2, "1"));
  EXPECT_EQ(TapId::parse("m@99999999999999999999/output").module, "m@99999999999999999999/output");
}

}  // namespace
}  // namespace pycandle
