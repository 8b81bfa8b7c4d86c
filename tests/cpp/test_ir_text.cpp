#include <gtest/gtest.h>

#include <limits>

#include "growth.h"
#include "ir/verifier.h"
#include "ir_test_ops.h"
#include "roundtrip.h"

namespace pycandle {
namespace {

const Dim s0 = Dim::symbol("s0"), u0 = Dim::symbol("u0");
constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInf = std::numeric_limits<double>::infinity();

// The values that outputs, taps and calls refer to.
struct SampleNodes {
  ValueId y, all;
};
SampleNodes add_nodes(Program& p) {
  const ValueId x = p.inputs[0].value, weight = p.parameters[0].value, mean = p.states[0].value;
  Builder b(p.graph, test_table());
  b.origin = {1, 0, 7, "y"};
  ValueId y = b.create("norm", {x, weight}, {{"scale", 0.5}});
  ValueId same_y = b.create("norm", {y, kNoValue, weight});
  b.origin = {-1, -1, 0, "only a name"};
  Values top = b.create_all("topk", {same_y}, {{"k", 2}});
  b.origin = {0, -1, 12, ""};
  b.create_all("note", {top[1]});
  b.origin = {};
  b.create("concat", {x, y, x}, {{"axis", 1}});
  Graph body;
  Builder inner = b.region(body);
  ValueId carry = body.add_input({DType::f32, {3}});
  inner.origin = {1, 0, 12, "z"};
  body.outputs = {inner.create("neg", {carry})};
  std::vector<Graph> regions{std::move(body)};
  ValueId updated = b.create("scan", {mean, x}, {{"length", s0 * 2 + 1}}, std::move(regions));
  p.states[0].updated = updated;
  ValueId all = b.create("everything", {},
                         {{"boolean", false},
                          {"integer", std::numeric_limits<int64_t>::min()},
                          {"number", -0.0},
                          {"scalar", std::complex<double>(kNan, -kInf)},
                          {"string", std::string("tab\t\0nul", 8)},
                          {"dtype", DType::boolean},
                          {"dim", floordiv(s0 - 3, 2)},
                          {"integers", Ints{}},
                          {"numbers", Numbers{kNan, kInf, -kInf, 5e-324, 1.7976931348623157e308, 0.1}},
                          {"dims", Dims{u0, max(s0, 4)}}});
  for (Attribute scalar :
       {Attribute(true), Attribute(1), Attribute(1.0), Attribute(kNan), Attribute(std::complex<double>(0.1, -0.0))}) {
    b.create("constant", {}, {{"value", scalar}, {"shape", Dims{}}});
  }
  return {y, all};
}

void add_calls(Program& p, ValueId x, ValueId y) {
  ModuleCall root, child;
  root.class_name = "pkg.Model";
  child.path = "layer.0";
  child.call = 3;
  child.class_name = "pkg.Layer";
  child.parent = 0;
  child.class_file = 0;
  child.class_line = 5;
  child.forward_line = 6;
  child.attributes = {
      {"eps", 1e-5}, {"n", int64_t{3}}, {"bias", true}, {"mode", std::string("zeros")}, {"none", std::monostate{}},
      {"inf", -kInf}};
  child.config = {{"hidden", int64_t{768}}};
  auto value = [](ValueId v) {
    Tree t;
    t.kind = Tree::Kind::value;
    t.value = v;
    return t;
  };
  auto tree = [](Tree::Kind kind, std::vector<std::pair<std::string, Tree>> items) {
    Tree t;
    t.kind = kind;
    t.items = std::move(items);
    return t;
  };
  auto literal = [](decltype(Tree::literal) l) {
    Tree t;
    t.kind = Tree::Kind::literal;
    t.literal = std::move(l);
    return t;
  };
  child.args = {{"x", value(x)},
                {"flags", tree(Tree::Kind::list, {{"", literal(false)}, {"", literal(2.0)}, {"", literal(std::monostate{})}})},
                {"none", Tree{}}};
  Tree object = tree(Tree::Kind::object, {{"logits", value(y)}, {"rest", tree(Tree::Kind::tuple, {{"", value(kNoValue)}})}});
  object.type_name = "pkg.Output";
  child.output = tree(
      Tree::Kind::dict,
      {{"a b", object}, {"n", literal(int64_t{-1})}, {"s", literal(std::string("t"))}, {"empty", tree(Tree::Kind::tuple, {})}});
  p.calls = {root, child};
}

// One of everything a program can hold.
Program sample() {
  Program p;
  p.name = "a \"sample\"\n";
  p.symbols = {{"s0", {1, {}}, 4, "x", 0}, {"s1", {2, 64}, 3, "mask", 1}, {"u0", {0, {}}, 1, "", -1}};
  p.files = {{"pkg/model.py", {{7, "y = f(x)  # é\t\"quoted\""}, {12, ""}}}, {"pkg/empty.py", {}}};

  ValueId x = p.graph.add_input({DType::f32, {s0, 3}});
  ValueId mask = p.graph.add_input({DType::i64, {s0, Dim::symbol("s1")}});
  ValueId weight = p.graph.add_input({DType::f32, {3}});
  ValueId table = p.graph.add_input({DType::f32, {s0, 3}});
  ValueId mean = p.graph.add_input({DType::f32, {3}});
  p.inputs = {{"x", x, {}, true}, {"mask", mask, {{-5, 9}}, false, "aten.odd, model.py:3"}};
  using Kind = Parameter::Kind;
  auto add_parameter = [&](const char* name, Kind kind, ValueId value, Type type) -> Parameter& {
    Parameter& parameter = p.parameters.emplace_back();
    parameter.name = name;
    parameter.kind = kind;
    parameter.value = value;
    parameter.type = std::move(type);
    return parameter;
  };
  Parameter& w = add_parameter("w", Kind::parameter, weight, {DType::f32, {3}});
  w.aliases = {"tied.w", "again.w"};
  w.file = "w.safetensors";
  w.key = "w";
  add_parameter("unused", Kind::buffer, kNoValue, {DType::boolean, {}}).persistent = false;
  add_parameter("lifted", Kind::constant, table, {DType::f32, {s0, 3}}).key = "key without file";
  p.states = {{"bn.mean", mean, kNoValue, "w.safetensors", "bn.mean"}};

  const auto [y, all] = add_nodes(p);
  p.outputs = {{"output.0", y}, {"output.1", x}, {"output.2", y}};
  p.taps = {{TapId::parse("@0/output"), y, "k"}, {TapId::parse("node:3"), all, ""}};
  p.checks = {{s0 * 2, Dim::symbol("s1"), "x dim 0 and \"mask\" dim 1", {0, 0, 7, ""}}, {u0, 3, "", {}}};
  add_calls(p, x, y);
  p.bind_outputs();
  return p;
}

TEST(Text, round_trips_everything_a_program_can_hold) {
  Program p = sample();
  verify(p, "the test");
  expect_round_trip(p, test_table());
}

TEST(Text, round_trips_an_empty_program) {
  expect_round_trip(Program{}, test_table());
  EXPECT_EQ(print(Program{}), "ptir.v1 program \"\"\n");
}

TEST(Text, reads_as_it_is_written) {
  std::string text = R"ptir(ptir.v1 program "tiny"

symbol s0 in [1, inf) example 4 from "x" axis 0

input %0 "x": f32[s0, 3] range [0, 5]

parameter %1 "w" alias "tied": f32[3] in "w.safetensors"
buffer _ "unused": bool[] transient

state %2 "mean": f32[3]

%3 = norm(%0, %1, _) {eps = 1e-05, scale = none}: f32[s0, 3]  loc(#0, 0:7, "y")
%4, %5 = topk(%3) {k = 2}: f32[s0, 2], i64[s0, 2]
() = note(%5)
%6 = scan(%2, %0) {length = s0 + 1} (%0: f32[3], %1: f32[3]) {
  %2 = add(%0, %1): f32[3]
  yield %2
}: f32[3]

output "output" %4

update %2 = %6

tap "@0/output" %4

check s0 == 2 "x dim 0 and 2"  loc(_, 0:7)

file #0 "model.py" {
  7 "y = norm(x)"
}

call #0 "" @0 class "pkg.Model" at 0:3 forward 6
  attribute "eps" = 1e-05
  arg "x" = %0
  returns object "pkg.Output" {"logits": %4, "rest": (%3, none)}
)ptir";
  Program p = parse_program(text, test_table());
  verify(p, "parsing");
  EXPECT_EQ(print(p), text);
  EXPECT_EQ(p.graph.nodes[3].regions.at(0).nodes.size(), 1u);
  EXPECT_EQ(p.graph.outputs, (Values{4, 6}));
  EXPECT_EQ(p.module_path(p.graph.nodes[0].origin), "");
  EXPECT_EQ(p.file_line(p.graph.nodes[0].origin), "model.py:7");
  EXPECT_EQ(p.source_line(p.graph.nodes[0].origin), "y = norm(x)");
  EXPECT_EQ(p.source_line({-1, 0, 8, ""}), "");
  expect_round_trip(p, test_table());

  std::string plain = print(p, {.origins = false});
  EXPECT_EQ(plain.find("loc"), std::string::npos);
  EXPECT_EQ(plain.find("file"), std::string::npos);
  EXPECT_EQ(plain.find("call"), std::string::npos);
}

TEST(Text, says_a_key_only_where_it_is_not_the_name) {
  const std::string text = R"ptir(ptir.v1 program "p"

input %0 "x": f32[]

parameter %1 "a": f32[] in "w.safetensors"
parameter %2 "b": f32[] in "w.safetensors" key "other"
parameter %3 "c": f32[] key "c"

state %4 "s": f32[] in "w.safetensors" key ""

output "output" %0

update %4 = %0

tap "@0/input" %0
tap "@0/output" %0 key "output:output"
)ptir";
  const Program p = parse_program(text, test_table());
  EXPECT_EQ(print(p), text);
  EXPECT_EQ(p.parameters[0].key, "a");
  EXPECT_EQ(p.parameters[1].key, "other");
  EXPECT_EQ(p.taps[0].key, "@0/input");
  EXPECT_EQ(p.states[0].key, "");
  EXPECT_EQ(print(parse_program(R"(ptir.v1 program "p" parameter _ "a": f32[] in "f" key "a")", test_table())),
            print(parse_program(R"(ptir.v1 program "p" parameter _ "a": f32[] in "f")", test_table())));
  expect_round_trip(p, test_table());
}

TEST(Text, accepts_any_numbering_comments_and_defaults) {
  Program p = parse_program(R"ptir(ptir.v1 program "p"  // the name
    symbol s0   // sizes are at least 1, bound by data
    input %900 "x": f32[ s0 ,2*s0 + 1 ]
    // a comment of its own
    %7 = norm(%900):f32[s0, 1 + s0*2] %8=constant(){value=3}:f32[]
    output "y" %7)ptir",
                            test_table());
  verify(p, "parsing");
  EXPECT_EQ(p.graph.nodes.size(), 2u);
  EXPECT_EQ(p.graph.nodes[0].operands, (Values{0, kNoValue, kNoValue}));
  EXPECT_TRUE(same(p.graph.nodes[1].attributes[0].second, 3));
  EXPECT_EQ(p.symbols[0].axis, -1);
  expect_round_trip(p, test_table());
}

TEST(Text, reads_the_escapes_of_json) {
  Program p = parse_program("ptir.v1 program \"\\u00e9\\ud83d\\ude00\\/\\b\\f\\u0000\"", test_table());
  EXPECT_EQ(p.name, std::string("é😀/\b\f\0", 10));
  expect_round_trip(p, test_table());
}

TEST(Text, prints_a_graph_alone) {
  Graph graph;
  Builder b(graph, test_table());
  graph.outputs = {b.neg(graph.add_input({DType::f32, {2}}))};
  EXPECT_EQ(print(graph), "(%0: f32[2]) {\n  %1 = neg(%0): f32[2]\n  yield %1\n}\n");
}

TEST(Text, prints_and_parses_regions_in_regions) {
  std::string text = R"ptir(ptir.v1 program "nested"

input %0 "x": f32[2]

%1 = scan(%0) {length = 2} (%0: f32[2]) {
  %1 = scan(%0) {length = 3} (%0: f32[2]) {
    %1 = neg(%0): f32[2]
    yield %1
  }: f32[2]
  yield %1
}: f32[2]
)ptir";
  Program p = parse_program(text, test_table());
  EXPECT_EQ(print(p), text);
  expect_round_trip(p, test_table());
}

TEST(Comparison, sees_every_difference) {
  const Program p = sample();
  std::vector<std::pair<const char*, std::function<void(Program&)>>> changes = {
      {"name", [](Program& q) { q.name += "x"; }},
      {"symbol range", [](Program& q) { q.symbols[0].range.max = 9; }},
      {"symbol axis", [](Program& q) { q.symbols[1].axis = 0; }},
      {"input range", [](Program& q) { q.inputs[1].range->second = 10; }},
      {"input used", [](Program& q) { q.inputs[1].used = true; }},
      {"gap", [](Program& q) { q.inputs[1].gap.reset(); }},
      {"alias", [](Program& q) { q.parameters[0].aliases.pop_back(); }},
      {"kind", [](Program& q) { q.parameters[1].kind = Parameter::Kind::parameter; }},
      {"persistent", [](Program& q) { q.parameters[1].persistent = true; }},
      {"unused type", [](Program& q) { q.parameters[1].type.dtype = DType::u8; }},
      {"key", [](Program& q) { q.parameters[2].key = ""; }},
      {"state update", [](Program& q) { q.states[0].updated = q.states[0].value; }},
      {"output value", [](Program& q) { q.outputs[0].value = 0; }},
      {"output order", [](Program& q) { std::swap(q.outputs[0], q.outputs[1]); }},
      {"tap key", [](Program& q) { q.taps[1].key = "k"; }},
      {"check", [](Program& q) { q.checks[1].right = 4; }},
      {"check origin", [](Program& q) { q.checks[0].origin.line = 8; }},
      {"source line", [](Program& q) { q.files[0].lines[1].second = "x"; }},
      {"call attribute", [](Program& q) { q.calls[1].attributes[1].second = 3.0; }},
      {"call argument", [](Program& q) { q.calls[1].args[0].second.value = 1; }},
      {"call output", [](Program& q) { q.calls[1].output.items[0].second.type_name = ""; }},
      {"call parent", [](Program& q) { q.calls[1].parent = -1; }},
      {"origin", [](Program& q) { q.graph.nodes[0].origin.assigned_to = "z"; }},
      {"region origin", [](Program& q) { q.graph.nodes[5].regions[0].nodes[0].origin.line = 1; }},
      {"attribute", [](Program& q) { q.graph.nodes[0].attributes[0].second = 1e-6; }},
      {"operand", [](Program& q) { q.graph.nodes[1].operands[0] = 0; }},
      {"absent operand", [](Program& q) { q.graph.nodes[1].operands[2] = kNoValue; }},
      {"type", [](Program& q) { q.graph.values[0].type.dtype = DType::f16; }},
      {"op", [](Program& q) { q.graph.nodes[5].regions[0].nodes[0].op = test_table().find("exp"); }},
      {"node", [](Program& q) { q.graph.nodes.pop_back(); }},
  };
  EXPECT_TRUE(identical(p, p));
  for (auto& [what, change] : changes) {
    Program q = p;
    change(q);
    EXPECT_FALSE(identical(p, q)) << what;
    EXPECT_FALSE(identical(q, p)) << what;
  }
}

TEST(Comparison, leaves_out_origins_and_numbering_when_it_is_structural) {
  auto chain = [](bool constant_first, int line, const char* last) {
    Graph g;
    Builder b(g, test_table());
    ValueId unused = constant_first ? g.add_input({DType::f32, {2}}) : kNoValue;
    ValueId x = g.add_input({DType::f32, {2}});
    if (!constant_first) unused = g.add_input({DType::f32, {2}});
    if (constant_first) g.inputs = {x, unused};
    b.origin.line = line;
    g.outputs = {b.unary(last, b.neg(x))};
    return g;
  };
  EXPECT_TRUE(structurally_equal(chain(false, 1, "exp"), chain(true, 2, "exp")));
  EXPECT_FALSE(structurally_equal(chain(false, 1, "exp"), chain(false, 1, "neg")));
}

TEST(Text, is_linear_in_the_number_of_nodes) {
  const auto run = [](int nodes) {
    Program p;
    p.symbols = {{"s0", {1, {}}, 4, "x", 0}};
    ValueId x = p.graph.add_input({DType::f32, {s0, 768}});
    ValueId w = p.graph.add_input({DType::f32, {768}});
    p.inputs = {{"x", x, {}, true}, {"w", w, {}, true}};
    p.files = {{"m.py", {}}};
    Builder b(p.graph, test_table());
    for (int i = 0; i < nodes; ++i) {
      b.origin = {-1, 0, i, "x"};
      x = b.create("norm", {x, w});
    }
    p.outputs = {{"output", x}};
    p.bind_outputs();
    Program parsed = parse_program(print(p), test_table());
    verify(parsed, "parsing");
    EXPECT_TRUE(identical(p, parsed));
  };
  EXPECT_LT(growth_of_four_times(run, 5000), 8);
}

}  // namespace
}  // namespace pycandle
