#include "ir/verifier.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir_test_ops.h"

namespace pycandle {
namespace {

Program valid() {
  return parse_program(R"ptir(ptir.v1 program "p"
symbol s0 in [1, 8] example 2 from "x" axis 0
input %0 "x": f32[s0, 3]
parameter %1 "w": f32[3]
state %2 "s": f32[3]
%3 = norm(%0, %1): f32[s0, 3] loc(#1, 0:7, "y")
%4, %5 = topk(%3) {k = 2}: f32[s0, 2], i64[s0, 2]
%6 = scan(%2) {length = s0} (%0: f32[3]) { %1 = neg(%0): f32[3] yield %1 }: f32[3]
%7 = iota() {size = s0}: i64[s0]
output "o" %3
update %2 = %6
tap "t@0/output" %5 key "k"
check s0 == 2 "c"
file #0 "m.py" { 7 "y = norm(x)" }
call #0 "" @0 class "M" arg "x" = %0
call #1 "layer" @2 class "L" parent #0 returns [%3]
)ptir",
                       test_table());
}

struct Broken {
  const char* name;
  std::function<void(Program&)> breaks;
  const char* message;  // a part of it
};

const Dim s9 = Dim::symbol("s9");
const std::vector<Broken> kBroken = {
    {"use_before_definition", [](Program& p) { p.graph.nodes[0].operands[0] = 4; },
     "operand 'x' is %4, which is not defined before it"},
    {"value_outside", [](Program& p) { p.graph.nodes[0].operands[0] = 99; },
     "operand 'x' is %99, which is not defined before it"},
    {"reordered_nodes", [](Program& p) { std::swap(p.graph.nodes[0], p.graph.nodes[1]); },
     "operand 'x' is %3, which is not defined before it"},
    {"required_operand_absent", [](Program& p) { p.graph.nodes[0].operands[0] = kNoValue; },
     "operand 'x' is absent and not optional"},
    {"too_many_operands", [](Program& p) { p.graph.nodes[1].operands.push_back(0); }, "wrong number of operands"},
    {"too_few_operands", [](Program& p) { p.graph.nodes[0].operands.pop_back(); }, "wrong number of operands"},
    {"attribute_left_out", [](Program& p) { p.graph.nodes[0].attributes.pop_back(); }, "wrong number of attributes"},
    {"attributes_out_of_order", [](Program& p) { std::swap(p.graph.nodes[0].attributes[0], p.graph.nodes[0].attributes[1]); },
     "attribute 0 is out of place"},
    {"attribute_of_another_kind", [](Program& p) { p.graph.nodes[1].attributes[0].second = 2.0; },
     "attribute 'k' is of the wrong kind"},
    {"attribute_absent_that_is_required", [](Program& p) { p.graph.nodes[0].attributes[0].second = Attribute{}; },
     "attribute 'eps' is of the wrong kind"},
    {"attribute_with_an_unknown_symbol", [](Program& p) { p.graph.nodes[3].attributes[0].second = s9; },
     "attribute 'size' uses symbol s9"},
    {"another_type_than_inferred", [](Program& p) { p.graph.values[3].type.dtype = DType::f16; },
     "the type of %3 is not the inferred one"},
    {"constraint",
     [](Program& p) {
       p.graph.values[1].type.shape = {4};
       p.parameters[0].type.shape = {4};
     },
     "constraint norm_c1 does not hold"},
    {"inference_refuses", [](Program& p) { p.graph.nodes[2].regions[0].outputs.clear(); },
     "its types cannot be inferred: a scan's region yields its carry"},
    {"no_op", [](Program& p) { p.graph.nodes[0].op = nullptr; }, "it has no op"},
    {"value_defined_twice", [](Program& p) { p.graph.inputs.push_back(0); }, "%0 is defined twice"},
    {"value_that_nothing_defines", [](Program& p) { p.graph.values.push_back({}); },
     "%8 is in the table of values but nothing defines it"},
    {"value_that_names_another_node", [](Program& p) { p.graph.values[6].node = 0; }, "%6 does not say where it is defined"},
    {"result_left_out", [](Program& p) { p.graph.nodes[1].results.pop_back(); }, "wrong number of results"},
    {"region_left_out", [](Program& p) { p.graph.nodes[2].regions.clear(); }, "wrong number of regions"},
    {"region_that_is_not_closed", [](Program& p) { p.graph.nodes[2].regions[0].nodes[0].operands[0] = 5; }, "operand 'x' is %5"},
    {"region_output_undefined", [](Program& p) { p.graph.nodes[2].regions[0].outputs[0] = 9; }, "an output of the graph is %9"},
    {"unknown_symbol_in_a_type", [](Program& p) { p.graph.values[0].type.shape[0] = s9; }, "the type of %0 uses symbol s9"},
    {"negative_size", [](Program& p) { p.graph.values[2].type.shape[0] = -3; }, "negative size"},
    {"symbol_twice", [](Program& p) { p.symbols.push_back(p.symbols[0]); }, "symbol s0 is declared twice"},
    {"symbol_with_an_empty_range", [](Program& p) { p.symbols[0].range.max = 0; }, "the range of symbol s0 is empty"},
    {"symbol_of_an_unknown_input", [](Program& p) { p.symbols[0].input = "z"; },
     "symbol s0 is bound by input \"z\", which the program does not have"},
    {"symbol_of_another_axis", [](Program& p) { p.symbols[0].axis = 1; }, "axis 1 of input \"x\" does not bind symbol s0"},
    {"symbol_of_no_axis", [](Program& p) { p.symbols[0].axis = -1; }, "symbol s0 is bound by input \"x\" without an axis"},
    {"inputs_out_of_order",
     [](Program& p) {
       std::swap(p.graph.inputs[0], p.graph.inputs[1]);
       std::swap(p.graph.values[0].index, p.graph.values[1].index);
     },
     "the graph's inputs are not the program's"},
    {"outputs_forgotten", [](Program& p) { p.graph.outputs.clear(); }, "the graph's outputs are not the program's"},
    {"output_outside", [](Program& p) { p.outputs[0].value = 99; }, "output \"o\" is %99"},
    {"output_named_twice",
     [](Program& p) {
       p.outputs.push_back(p.outputs[0]);
       p.bind_outputs();
     },
     "output \"o\" is there twice"},
    {"parameter_of_another_type", [](Program& p) { p.parameters[0].type.dtype = DType::f16; },
     "parameter \"w\" has another type than its value"},
    {"parameter_named_twice", [](Program& p) { p.parameters[0].aliases = {"w"}; }, "parameter \"w\" is there twice"},
    {"state_that_changes_its_type",
     [](Program& p) {
       p.states[0].updated = 3;
       p.bind_outputs();
     },
     "state \"s\" changes its type"},
    {"tap_outside", [](Program& p) { p.taps[0].value = kNoValue; }, "tap \"t@0/output\" is %-1"},
    {"tap_named_twice", [](Program& p) { p.taps.push_back(p.taps[0]); }, "tap \"t@0/output\" is there twice"},
    {"check_with_an_unknown_symbol", [](Program& p) { p.checks[0].right = s9; }, "a check uses symbol s9"},
    {"origin_of_an_unknown_call", [](Program& p) { p.graph.nodes[0].origin.call = 2; }, "it refers to module call 2"},
    {"origin_of_an_unknown_file", [](Program& p) { p.graph.nodes[0].origin.file = 1; }, "it refers to file 1"},
    {"call_with_a_later_parent", [](Program& p) { p.calls[1].parent = 1; }, "refers to parent 1"},
    {"call_with_an_unknown_value", [](Program& p) { p.calls[1].output.items[0].second.value = 77; },
     "is %77, which is not in the graph"},
};

TEST(Verifier, accepts_a_valid_program) { EXPECT_NO_THROW(verify(valid(), "parsing")); }

class BrokenPrograms : public testing::TestWithParam<Broken> {};

TEST_P(BrokenPrograms, are_refused) {
  Program p = valid();
  GetParam().breaks(p);
  Error error = error_of([&] { verify(p, "my-pass"); });
  EXPECT_EQ(error.code(), ErrorCode::internal);
  EXPECT_EQ(error.message().substr(0, 40), "the program is not valid after my-pass: ");
  EXPECT_NE(error.message().find(GetParam().message), std::string::npos) << error.message();
}

INSTANTIATE_TEST_SUITE_P(Verifier, BrokenPrograms, testing::ValuesIn(kBroken),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Verifier, names_the_node_and_its_place) {
  Program p = valid();
  p.graph.values[3].type.dtype = DType::f16;
  Error error = error_of([&] { verify(p, "fold"); });
  EXPECT_EQ(error.message(), "the program is not valid after fold: node 0 (%3 = norm): the type of %3 is not the inferred one");
  EXPECT_EQ(error.expected(), "f32[s0, 3]");
  EXPECT_EQ(error.found().substr(0, 10), "f16[s0, 3]");
  EXPECT_EQ(error.op(), "norm");
  EXPECT_EQ(error.module_path(), "layer@2");
  EXPECT_EQ(error.file_line(), "m.py:7");
  EXPECT_EQ(error.source_line(), "y = norm(x)");
}

}  // namespace
}  // namespace pycandle
