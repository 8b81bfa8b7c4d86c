// What the parser says to text that is wrong: always bad_input, with the place.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir_test_ops.h"

namespace pycandle {
namespace {

struct Case {
  const char* name;
  std::string text;   // after the first line
  const char* place;  // line:column
  const char* message;
  const char* expected = nullptr;
  const char* found = nullptr;
};

std::string nested(int depth, const std::string& open, const std::string& middle, const std::string& close) {
  std::string text;
  for (int i = 0; i < depth; ++i) text += open;
  text += middle;
  for (int i = 0; i < depth; ++i) text += close;
  return text;
}

const std::string kInput = "input %0 \"x\": f32[2, 3]\n";

const std::vector<Case> kCases = {
    {"unknown_op", kInput + "%1 = nagate(%0): f32[2, 3]", "3:6", "there is no op 'nagate'", "the name of an op", "nagate"},
    {"undefined_value", kInput + "%1 = neg(%7): f32[2, 3]", "3:10", "%7 is not defined", "a value that is defined above", "%7"},
    {"value_used_before_its_definition", kInput + "%1 = neg(%1): f32[2, 3]", "3:10", "%1 is not defined"},
    {"value_defined_twice", kInput + "%0 = neg(%0): f32[2, 3]", "3:1", "%0 is defined twice"},
    {"result_defined_twice", kInput + "%1, %1 = topk(%0) {k = 1}: f32[2, 1], i64[2, 1]", "3:5", "%1 is defined twice"},
    {"wrong_type", kInput + "%1 = neg(%0): f32[2, 4]", "3:15", "neg does not have the type written", "f32[2, 3]", "f32[2, 4]"},
    {"wrong_number_of_results", kInput + "%1, %2 = neg(%0): f32[2, 3], f32[2, 3]", "3:10", "neg has another number of results",
     "1", "2"},
    {"too_few_types", kInput + "%1, %2 = topk(%0) {k = 1}: f32[2, 1]", "3:28", "topk does not have the type written",
     "f32[2, 1], i64[2, 1]"},
    {"results_of_an_op_without", kInput + "() = neg(%0)", "3:6", "neg has another number of results", "1", "0"},
    {"missing_operand", kInput + "%1 = add(%0): f32[2, 3]", "3:6", "operand 'b' of add is missing"},
    {"absent_operand_that_is_required", kInput + "%1 = add(_, %0): f32[2, 3]", "3:6", "operand 'a' of add is missing"},
    {"constraint", kInput + "%1 = constant() {value = 1}: f32[]\n%2 = add(%0, %1): f32[2, 3]", "4:6",
     "constraint add_c1 of add does not hold", "a and b have the same type", "add(a: f32[2, 3], b: f32[])"},
    {"unknown_attribute", kInput + "%1 = norm(%0) {epsilon = 1.0}: f32[2, 3]", "3:16", "norm has no attribute 'epsilon'"},
    {"missing_attribute", kInput + "%1 = cast(%0): f32[2, 3]", "3:6", "attribute 'dtype' of cast is missing"},
    {"doubled_attribute", kInput + "%1 = norm(%0) {eps = 1.0, eps = 2.0}: f32[2, 3]", "3:6",
     "attribute 'eps' of norm is given twice"},
    {"attribute_of_another_kind", kInput + "%1 = topk(%0) {k = 1.5}: f32[2, 1]", "3:20", "unexpected '1'", "an integer"},
    {"none_for_an_attribute_that_is_required", kInput + "%1 = topk(%0) {k = none}: f32[2, 1]", "3:20", "unexpected 'none'",
     "an integer", "'none'"},
    {"string_for_a_number", kInput + "%1 = norm(%0) {eps = \"x\"}: f32[2, 3]", "3:22", "unexpected '\"'", "a number"},
    {"integer_too_large", kInput + "%1 = topk(%0) {k = 9223372036854775808}: f32[2, 1]", "3:20", "the number is too large"},
    {"float_too_large", kInput + "%1 = norm(%0) {eps = 1e999}: f32[2, 3]", "3:22", "the number is out of range"},
    {"hexadecimal_float", kInput + "%1 = norm(%0) {eps = 0x1p3}: f32[2, 3]", "3:22", "unexpected '0x1p3'", "a number"},
    {"value_number_too_large", "input %4294967296 \"x\": f32[]", "2:8", "the number is out of range"},
    {"negative_value_number", "input %-1 \"x\": f32[]", "2:8", "the number is out of range"},
    {"unknown_dtype", "input %0 \"x\": float32[2]", "2:15", "'float32' is not a dtype"},
    {"negative_size", "input %0 \"x\": f32[2, -1]", "2:22", "a negative size", "0 or more", "-1"},
    {"undeclared_symbol", "input %0 \"x\": f32[2, s7 + 1]", "2:22", "symbol s7 is not declared", "'symbol s7' at the top", "s7"},
    {"missing_dim", "input %0 \"x\": f32[2,, 3]", "2:21", "unexpected ','", "a dim", "','"},
    {"unclosed_shape", "input %0 \"x\": f32[2, 3", "2:23", "unexpected the end of the text", "']'", "the end of the text"},
    {"shape_without_brackets", "input %0 \"x\": f32", "2:18", "unexpected the end of the text", "'['"},
    {"unterminated_string", "input %0 \"x: f32[2]\noutput", "2:10", "a string does not end", "'\"' on the same line"},
    {"bad_escape", "input %0 \"a\\q\": f32[2]", "2:12", "a bad escape in a string"},
    {"lone_surrogate", "input %0 \"\\ud800\": f32[2]", "2:11", "a bad escape in a string", "a pair of surrogates"},
    {"short_escape", "input %0 \"\\u12\": f32[2]", "2:11", "a bad escape in a string"},
    {"control_character", std::string("input %0 \"a\x01\": f32[2]"), "2:12", "a control character in a string"},
    {"input_named_twice", kInput + "input %1 \"x\": f32[2]", "3:10", "input \"x\" is there twice"},
    {"alias_named_twice", "parameter %1 \"w\" alias \"w\": f32[2]", "2:24", "parameter \"w\" is there twice"},
    {"symbol_declared_twice", "symbol s0 symbol s0", "2:18", "symbol s0 is declared twice"},
    {"symbol_with_the_name_of_a_function", "symbol max", "2:8", "'max' cannot name a symbol"},
    {"empty_range", "symbol s0 in [4, 2]", "2:14", "an empty range"},
    {"out_of_order", kInput + "%1 = neg(%0): f32[2, 3]\ninput %2 \"y\": f32[2]", "4:1", "unexpected 'input'"},
    {"trailing_text", kInput + "output \"y\" %0 }", "3:15", "unexpected '}'"},
    {"region_missing", kInput + "%1 = scan(%0) {length = 2}: f32[2, 3]", "3:6", "scan has the wrong number of regions", "1", "0"},
    {"region_where_none_belongs", kInput + "%1 = neg(%0) () { yield }: f32[2, 3]", "3:6", "neg has the wrong number of regions",
     "0", "1"},
    {"region_sees_nothing_outside", kInput + "%1 = scan(%0) {length = 2} () {\n  %3 = neg(%0): f32[2, 3]\n yield %3 }: f32[2, 3]",
     "4:12", "%0 is not defined"},
    {"region_without_yield", kInput + "%1 = scan(%0) {length = 2} (%0: f32[2]) {\n }: f32[2, 3]", "4:2", "unexpected '}'",
     "'yield'"},
    {"wrong_region", kInput + "%1 = scan(%0) {length = 2} (%0: f32[2]) { yield }: f32[2, 3]", "3:6",
     "a scan's region yields its carry", "1 value", "0"},
    {"inference_that_throws_something_else", kInput + "%1 = transpose(%0) {permutation = [5, 6]}: f32[2, 3]", "3:6",
     "transpose refuses these operands"},
    {"loc_of_an_unknown_call", kInput + "%1 = neg(%0): f32[2, 3] loc(#2, _:0)", "3:30", "there is no module call #2",
     "one of the 0 listed", "#2"},
    {"loc_of_an_unknown_file", kInput + "%1 = neg(%0): f32[2, 3] loc(_, 1:7)\nfile #0 \"a.py\"", "3:32", "there is no file #1",
     "one of the 1 listed", "#1"},
    {"file_out_of_order", "file #1 \"a.py\"", "2:7", "numbers must count up from 0", "0", "1"},
    {"lines_out_of_order", "file #0 \"a.py\" {\n 7 \"x\"\n 7 \"y\" }", "4:2", "lines are not in order", "a line after 7", "7"},
    {"parent_below_its_child", "call #0 \"a\" @0 class \"A\" parent #0", "2:34", "a call's parent stands above it",
     "a number below its own", "#0"},
    {"tree_of_an_unknown_value", "call #0 \"a\" @0 class \"A\" returns [%5]", "2:35", "%5 is not defined"},
    {"complex_attribute_of_a_call", "call #0 \"a\" @0 class \"A\" attribute \"z\" = complex(1, 2)", "2:42",
     "a complex number cannot stand here"},
    {"update_of_what_is_no_state", kInput + "update %0 = %0", "3:8", "an update of a value that is not a state"},
    {"update_twice", "state %0 \"s\": f32[]\nupdate %0 = %0\nupdate %0 = %0", "4:8", "state \"s\" is updated twice"},
    {"check_with_one_equals_sign", "check 2 = 3 \"x\"", "2:11", "unexpected '3'", "'='"},
    {"output_of_an_absent_value", "output \"y\" _", "2:12", "unexpected '_'", "'%'"},
    {"columns_count_characters", "input %0 \"é€😀\" f32[2]", "2:16", "unexpected 'f32'", "':'", "'f32'"},
    {"deep_regions", kInput + nested(40, "%1 = scan(%0) {length = 2} (%0: f32[2, 3]) {\n", "", "yield %1 }: f32[2, 3]\n"),
     "35:28", "regions are nested too deep", "at most 32 levels"},
    {"deep_trees", "call #0 \"\" @0 class \"A\" returns " + nested(100000, "[", "", "]"), "2:65", "values are nested too deep",
     "at most 32 levels"},
    {"deep_dims", "input %0 \"x\": f32[" + nested(5000, "(", "1", ")") + "]", "2:19", ""},
    {"symbol_that_no_input_binds", "symbol s0 in [1, 8] example 2 from \"x\" axis 0\n" + kInput, "1:1",
     "the program is not valid after parsing: axis 0 of input \"x\" does not bind symbol s0"},
    {"state_that_changes_its_type", kInput + "state %1 \"s\": f32[]\nupdate %1 = %0", "1:1",
     "the program is not valid after parsing: state \"s\" changes its type", "f32[]", "f32[2, 3]"},
    {"binary", std::string("\x00\xff\xfe", 3), "2:1", "unexpected byte 0"},
};

class ParserErrors : public testing::TestWithParam<Case> {};

TEST_P(ParserErrors, say_what_and_where) {
  const Case& c = GetParam();
  Error error = error_of([&] { parse_program("ptir.v1 program \"p\"\n" + c.text, test_table(), "bad.ptir"); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  std::string start = std::string("bad.ptir:") + c.place + ": " + c.message;
  EXPECT_EQ(error.message().substr(0, start.size()), start);
  if (c.expected) {
    EXPECT_EQ(error.expected(), c.expected);
  }
  if (c.found) {
    EXPECT_EQ(error.found(), c.found);
  }
}

INSTANTIATE_TEST_SUITE_P(Text, ParserErrors, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Parser, wants_a_version_that_it_knows) {
  for (const char* text : {"ptir.v2 program \"p\"", "ptir.v1.1 program \"p\"", "module"}) {
    Error error = error_of([&] { parse_program(text, test_table()); });
    EXPECT_EQ(error.message(), "ptir text:1:1: not a version of PTIR that is known here");
    EXPECT_EQ(error.expected(), "ptir.v1");
  }
  EXPECT_EQ(error_of([&] { parse_program("", test_table()); }).message(), "ptir text:1:1: unexpected the end of the text");
}

TEST(Parser, refuses_every_proper_prefix_or_parses_it_whole) {
  std::string text =
      "ptir.v1 program \"p\" symbol s0 in [1, 8] example 2 from \"x\" axis 0 input %0 \"x\": f32[s0, 3] range [0, 1] unused "
      "parameter %1 \"w\" alias \"v\": f32[3] in \"f\" key \"k\" transient state %2 \"s\": f32[3] "
      "%3 = norm(%0, %1, _) {eps = 1e-05, scale = none}: f32[s0, 3] loc(#0, 0:7, \"y\") "
      "%4 = scan(%2) {length = s0} (%0: f32[3]) { %1 = neg(%0): f32[3] yield %1 }: f32[3] "
      "output \"o\" %3 update %2 = %4 tap \"t@0/output\" %3 key \"k\" check s0 == 2 \"c\" loc(_, 0:7) file #0 \"m\" { 7 \"x\" } "
      "call #0 \"\" @0 class \"M\" at 0:1 forward 2 attribute \"a\" = 1.5 config \"c\" = null arg \"x\" = {\"k\": [%0, (none)]} "
      "returns object \"O\" {\"y\": %3}";
  parse_program(text, test_table());
  for (size_t length = 0; length < text.size(); ++length) {
    try {
      parse_program(std::string_view(text).substr(0, length), test_table());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.text();
    }
  }
}

TEST(Parser, survives_every_changed_byte) {
  std::string text =
      "ptir.v1 program \"p\" symbol s0 input %0 \"x\": f32[s0, 3] %1, %2 = topk(%0) {k = 2}: f32[s0, 2], i64[s0, 2] "
      "%3 = everything() {boolean = true, integer = 1, number = 0.5, scalar = complex(1, 2), string = \"s\", dtype = f32, "
      "dim = floordiv(s0, 2), integers = [1], numbers = [0.5], dims = [s0]}: f32[s0]";
  for (size_t i = 0; i < text.size(); ++i) {
    for (char c : std::string("\0\"(){}[]%,-9zé\n", 16)) {
      std::string changed = text;
      changed[i] = c;
      try {
        parse_program(changed, test_table());
      } catch (const Error& error) {
        EXPECT_EQ(error.code(), ErrorCode::bad_input) << error.text();
      }
    }
  }
}

}  // namespace
}  // namespace pycandle
