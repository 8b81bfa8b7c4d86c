#include <gtest/gtest.h>

#include <limits>

#include "ir/text.h"
#include "ir_test_ops.h"

namespace pycandle {
namespace {

const Dim s0 = Dim::symbol("s0"), s1 = Dim::symbol("s1");

struct BuilderTest : testing::Test {
  Graph graph;
  std::vector<Check> checks;
  SymbolRanges ranges;
  Builder b{graph, test_table(), &checks, &ranges};
  ValueId input(DType dtype, Shape shape) { return graph.add_input({dtype, std::move(shape)}); }
  const Node& last() { return graph.nodes.back(); }
};

TEST_F(BuilderTest, fills_in_attributes_in_the_order_of_the_definition) {
  b.create("constant", {}, {{"dtype", DType::i64}, {"value", 3}});
  Attributes expected{{"value", 3}, {"shape", Dims{}}, {"dtype", DType::i64}};
  EXPECT_TRUE(same(last().attributes, expected));
}

TEST_F(BuilderTest, fills_in_absent_optional_operands_and_attributes) {
  b.create("norm", {input(DType::f32, {2, 3})});
  EXPECT_EQ(last().operands, (Values{0, kNoValue, kNoValue}));
  EXPECT_TRUE(std::holds_alternative<std::monostate>(last().attributes[1].second));
}

TEST_F(BuilderTest, converts_integers_to_what_the_attribute_is) {
  ValueId x = input(DType::f32, {2, 3});
  b.create("norm", {x}, {{"eps", 1}, {"scale", 2}});
  EXPECT_TRUE(same(last().attributes, {{"eps", 1.0}, {"scale", 2.0}}));
  b.create("reshape", {x}, {{"shape", Ints{3, 2}}});
  EXPECT_TRUE(same(last().attributes, {{"shape", Dims{3, 2}}}));
  b.create("dim", {}, {{"value", 4}});
  EXPECT_TRUE(same(last().attributes, {{"value", Dim(4)}}));
  b.create("transpose", {x}, {{"permutation", Dims{1, 0}}});
  EXPECT_TRUE(same(last().attributes, {{"permutation", Ints{1, 0}}}));
}

TEST_F(BuilderTest, refuses_unknown_missing_doubled_and_wrongly_typed_attributes) {
  ValueId x = input(DType::f32, {2});
  Error unknown = error_of([&] { b.create("norm", {x}, {{"epsilon", 1e-5}}); });
  EXPECT_EQ(unknown.code(), ErrorCode::bad_input);
  EXPECT_EQ(unknown.message(), "norm has no attribute 'epsilon'");
  EXPECT_EQ(unknown.expected(), "eps, scale");
  EXPECT_EQ(unknown.op(), "norm");
  EXPECT_EQ(error_of([&] { b.create("cast", {x}); }).message(), "attribute 'dtype' of cast is missing");
  EXPECT_EQ(error_of([&] { b.create("norm", {x}, {{"eps", 1.0}, {"eps", 2.0}}); }).message(),
            "attribute 'eps' of norm is given twice");
  Error kind = error_of([&] { b.create("norm", {x}, {{"eps", "small"}}); });
  EXPECT_EQ(kind.expected(), "number");
  EXPECT_EQ(kind.found(), "\"small\"");
  EXPECT_EQ(error_of([&] { b.create("transpose", {x}, {{"permutation", Dims{s0}}}); }).expected(), "integers");
  EXPECT_EQ(error_of([&] { b.create("norm", {x}, {{"eps", Attribute{}}}); }).found(), "none");
  EXPECT_TRUE(graph.nodes.empty()) << "a refused call leaves no node";
}

TEST_F(BuilderTest, refuses_wrong_operands_and_regions) {
  ValueId x = input(DType::f32, {2});
  EXPECT_EQ(error_of([&] { b.create("neg", {}); }).message(), "operand 'x' of neg is missing");
  EXPECT_EQ(error_of([&] { b.create("neg", {x, x}); }).message(), "neg has too many operands");
  EXPECT_EQ(error_of([&] { b.create("add", {x, kNoValue}); }).message(), "operand 'b' of add is missing");
  EXPECT_EQ(error_of([&] { b.create("concat", {x, kNoValue}); }).message(), "operand 'xs' of concat is missing");
  EXPECT_EQ(error_of([&] { b.create("neg", {7}); }).code(), ErrorCode::internal);
  EXPECT_EQ(error_of([&] { b.create("no_such_op", {x}); }).code(), ErrorCode::internal);
  EXPECT_EQ(error_of([&] { b.create("scan", {x}, {{"length", 3}}); }).message(), "scan has the wrong number of regions");
}

TEST_F(BuilderTest, cites_the_constraint_that_does_not_hold) {
  ValueId x = input(DType::f32, {2, 3}), weight = input(DType::f32, {4});
  Error error = error_of([&] { b.create("norm", {x, weight}); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.message(), "constraint norm_c1 of norm does not hold");
  EXPECT_EQ(error.expected(), "weight has the size of the last dim of x");
  EXPECT_EQ(error.found(), "norm(x: f32[2, 3], weight: f32[4], bias: _) {eps = 1e-05, scale = none}");
  EXPECT_EQ(error.op(), "norm");
}

TEST_F(BuilderTest, names_the_op_of_an_error_thrown_by_inference) {
  ValueId x = input(DType::f32, {2});
  std::vector<Graph> regions(1);
  EXPECT_EQ(error_of([&] { b.create("scan", {x}, {{"length", 3}}, std::move(regions)); }).op(), "scan");
}

TEST_F(BuilderTest, refuses_results_of_negative_size) {
  Error error = error_of([&] { b.full(0.0, DType::f32, {2, -1}); });
  EXPECT_EQ(error.code(), ErrorCode::bad_input);
  EXPECT_EQ(error.message(), "a result of constant has a negative size");
  EXPECT_TRUE(graph.nodes.empty());
}

TEST_F(BuilderTest, gives_nodes_its_origin) {
  b.origin = {3, 1, 42, "y"};
  b.neg(input(DType::f32, {2}));
  EXPECT_EQ(last().origin, (Origin{3, 1, 42, "y"}));
}

TEST_F(BuilderTest, notes_one_check_for_dims_that_may_be_equal) {
  ValueId x = input(DType::f32, {2, s0}), weight = input(DType::f32, {s1});
  b.create("norm", {x, weight});
  b.create("norm", {x, weight});
  ASSERT_EQ(checks.size(), 1u);
  EXPECT_EQ(checks[0].left, s1);
  EXPECT_EQ(checks[0].right, s0);
  EXPECT_EQ(checks[0].what, "weight of norm");
}

TEST_F(BuilderTest, knows_ranges_when_it_compares_dims) {
  ranges["s0"] = {8, {}};
  EXPECT_FALSE(b.check(s0, 4, "never"));
  EXPECT_TRUE(b.check(s0, 9, "perhaps"));
  EXPECT_EQ(checks.size(), 1u);
}

TEST_F(BuilderTest, broadcasts_operands_explicitly) {
  ValueId y = b.add(input(DType::f32, {2, 1, s0}), input(DType::f32, {5, 1}));
  EXPECT_EQ(b.type(y).text(), "f32[2, 5, s0]");
  EXPECT_EQ(graph.nodes.size(), 3u);
  EXPECT_EQ(graph.nodes[0].op->name, "broadcast");
  EXPECT_TRUE(same(graph.nodes[1].attributes, {{"shape", Dims{2, 5, s0}}, {"axes", Ints{1, 2}}}));
  EXPECT_TRUE(checks.empty());
}

TEST_F(BuilderTest, a_dim_that_the_ranges_make_one_broadcasts_without_a_check) {
  const SymbolRanges ranges{{"s0", {1, {}}}};
  std::vector<Check> checks;
  Builder ranged(graph, b.table(), &checks, &ranges);
  const ValueId x = input(DType::f32, {Dim(1) - max(Dim(1) - s0, Dim(0))});
  EXPECT_EQ(ranged.shape(ranged.broadcast_to(x, {s0})), Shape{s0});
  EXPECT_TRUE(checks.empty());
}

TEST_F(BuilderTest, a_symbolic_dim_meets_a_number_or_another_symbol) {
  ValueId y = b.add(input(DType::f32, {s0, 1}), input(DType::f32, {s1, s1}));
  EXPECT_EQ(b.type(y).text(), "f32[s0, s1]");
  ASSERT_EQ(checks.size(), 1u);
  b.add(input(DType::f32, {s0}), input(DType::f32, {7}));
  ASSERT_EQ(checks.size(), 2u);
  EXPECT_EQ(checks[1].right, s0);
  EXPECT_EQ(checks[1].left, Dim(7));
}

TEST_F(BuilderTest, refuses_shapes_and_dtypes_that_do_not_go_together) {
  ValueId x = input(DType::f32, {2, 3});
  EXPECT_EQ(error_of([&] { b.add(x, input(DType::f32, {4})); }).message(), "shapes [2, 3] and [4] do not broadcast");
  EXPECT_EQ(error_of([&] { b.add(x, input(DType::f64, {3})); }).found(), "f32[2, 3] and f64[3]");
  EXPECT_EQ(error_of([&] { b.broadcast_to(x, {3}); }).code(), ErrorCode::bad_input);
  EXPECT_EQ(error_of([&] { b.broadcast_to(x, {2, 4}); }).code(), ErrorCode::bad_input);
}

TEST_F(BuilderTest, numbers_take_the_dtype_of_the_tensor) {
  b.mul(input(DType::i64, {}), 2.0);
  EXPECT_TRUE(same(graph.nodes[0].attributes, {{"value", 2}, {"shape", Dims{}}, {"dtype", DType::i64}}));
  EXPECT_EQ(error_of([&] { b.mul(input(DType::i64, {}), 0.5); }).message(), "0.5 is not a number of i64");
  b.full(int64_t{1}, DType::bf16);
  EXPECT_TRUE(same(last().attributes[0].second, 1.0));
  b.full(2.0, DType::boolean);
  EXPECT_TRUE(same(last().attributes[0].second, true));
}

TEST_F(BuilderTest, returns_the_operand_when_nothing_changes) {
  ValueId x = input(DType::f32, {s0, 3});
  EXPECT_EQ(b.cast(x, DType::f32), x);
  EXPECT_EQ(b.widened(x), x);
  EXPECT_EQ(b.reshape(x, {s0, 3}), x);
  EXPECT_EQ(b.transpose(x, {0, -1}), x);
  EXPECT_EQ(b.broadcast_to(x, {s0, 3}), x);
  EXPECT_EQ(b.slice(x, 0, 0, s0), x);
  EXPECT_EQ(b.pad(x, {0, 0}, {0, 0}, 0.0), x);
  EXPECT_EQ(b.reverse(x, {}), x);
  EXPECT_EQ(b.concat({x}, 0), x);
  EXPECT_EQ(b.sum(x, {}), x);
  EXPECT_TRUE(graph.nodes.empty());
}

TEST_F(BuilderTest, changes_shapes) {
  ValueId x = input(DType::f16, {s0, 3, 8});
  EXPECT_EQ(b.type(b.swap_axes(x, -1, 0)).text(), "f16[8, 3, s0]");
  EXPECT_EQ(b.type(b.unsqueeze(x, -1)).text(), "f16[s0, 3, 8, 1]");
  EXPECT_EQ(b.type(b.squeeze(b.unsqueeze(x, 0), 0)).text(), "f16[s0, 3, 8]");
  EXPECT_EQ(b.type(b.slice(x, -1, 1, 7, 2)).text(), "f16[s0, 3, 3]");
  EXPECT_EQ(b.type(b.select_index(x, 0, -1)).text(), "f16[3, 8]");
  EXPECT_TRUE(same(graph.nodes[graph.nodes.size() - 2].attributes[0].second, Dims{s0 - 1, 0, 0}));
  EXPECT_EQ(b.type(b.widened(x)).text(), "f32[s0, 3, 8]");
  EXPECT_TRUE(checks.empty());
  EXPECT_EQ(error_of([&] { b.squeeze(x, 1); }).found(), "f16[s0, 3, 8]");
  EXPECT_EQ(error_of([&] { b.unsqueeze(x, 4); }).message(), "axis 4 is out of range");
}

TEST_F(BuilderTest, reduces_with_and_without_the_axes) {
  ValueId x = input(DType::f32, {s0, 3, 8});
  EXPECT_EQ(b.type(b.sum(x, {-1, 0})).text(), "f32[1, 3, 1]");
  EXPECT_TRUE(same(graph.nodes[0].attributes, {{"axes", Ints{0, 2}}}));
  EXPECT_EQ(b.type(b.sum(x, {1}, false)).text(), "f32[s0, 8]");
  EXPECT_EQ(error_of([&] { b.sum(x, {1, -2}); }).message(), "an axis appears twice in reduce_sum");
}

TEST_F(BuilderTest, divides_by_a_count_that_may_be_symbolic) {
  ValueId x = input(DType::f32, {s0, 3, 8});
  EXPECT_EQ(b.type(b.mean(x, {1, 2}, false)).text(), "f32[s0]");
  EXPECT_EQ(graph.nodes[1].op->name, "constant");
  EXPECT_TRUE(same(graph.nodes[1].attributes[0].second, 24.0));
  EXPECT_EQ(b.type(b.mean(x, {0, 2})).text(), "f32[1, 3, 1]");
  std::string text = print(graph);
  EXPECT_NE(text.find("dim() {value = 8*s0}: i64[]"), std::string::npos) << text;
  EXPECT_NE(text.find("{dtype = f32}: f32[]"), std::string::npos) << text;
}

TEST(broadcast_shapes, follows_numpy) {
  EXPECT_EQ(to_string(broadcast_shapes({2, 1}, {3})), "[2, 3]");
  EXPECT_EQ(to_string(broadcast_shapes({1}, {s0, s1})), "[s0, s1]");
  EXPECT_EQ(to_string(broadcast_shapes({s0}, {s1})), "[s0]");
  EXPECT_EQ(to_string(broadcast_shapes({}, {})), "[]");
  EXPECT_EQ(to_string(broadcast_shapes({1}, {0})), "[0]");
  EXPECT_THROW(broadcast_shapes({2}, {0}), Error);
}

TEST(last_axes, counts_from_the_end) { EXPECT_EQ(last_axes(4, 2), (Ints{2, 3})); }

TEST(attributes, are_the_same_when_they_print_the_same) {
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(same(Attribute(nan), Attribute(nan)));
  EXPECT_FALSE(same(Attribute(0.0), Attribute(-0.0)));
  EXPECT_FALSE(same(Attribute(1.0), Attribute(1)));
  EXPECT_TRUE(same(Attribute(Numbers{nan, 1}), Attribute(Numbers{nan, 1})));
  EXPECT_FALSE(same(Attribute(Numbers{nan}), Attribute(Numbers{nan, nan})));
  EXPECT_FALSE(same(Attributes{{"a", 1}}, Attributes{{"b", 1}}));
  EXPECT_EQ(to_string(Attribute(std::complex<double>(0, -1))), "complex(0.0, -1.0)");
  EXPECT_EQ(quoted("a\"b\\\n\x01é"), "\"a\\\"b\\\\\\n\\u0001é\"");
}

TEST(OpTable, finds_ops_by_name_and_by_overload) {
  const OpTable& table = test_table();
  EXPECT_EQ(table.find("nothing"), nullptr);
  EXPECT_EQ(table.at("norm").name, "norm");
  const auto* entry = table.find_aten("aten.norm.default");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->op, table.find("norm"));
  EXPECT_EQ(entry->mapping->overload, "aten.norm.default");
  EXPECT_EQ(entry->mapping->pattern, "x, weight, bias, eps, _");
  EXPECT_EQ(entry->mapping->discards, std::vector<std::string>{"cudnn_enable: no effect on values"});
  EXPECT_EQ(table.find_aten("aten.norm"), nullptr);
}

TEST(OpTable, refuses_definitions_that_contradict_themselves) {
  auto infer = [](const Call& c) { return c.type("x"); };
  auto unary = [&](const char* name) { return primitive(name).operands("x").infer(infer); };
  auto refuses = [](OpDef op) {
    OpTable table;
    return error_of([&] { table.add(std::move(op)); }).message();
  };
  EXPECT_EQ(refuses(unary("a b")), "op 'a b': its name has other characters than letters, digits, '_' and '.'");
  EXPECT_EQ(refuses(primitive("f")), "op 'f': it has no type inference");
  EXPECT_EQ(refuses(unary("f").operands("x")), "op 'f': operand 'x' is misnamed or named twice");
  EXPECT_EQ(refuses(primitive("f").operands(variadic("xs"), "x").infer(infer)),
            "op 'f': its variadic operand is not the last one");
  EXPECT_EQ(refuses(unary("f").attributes(attr<double>("eps", "none"))), "op 'f': the default of 'eps' is not of kind number");
  EXPECT_EQ(refuses(unary("f").from_aten("aten.f.default(x, _)")),
            "f: the pattern of aten.f.default has 1 '_' and 0 reasons for discarding");
  EXPECT_EQ(refuses(unary("f").from_aten("aten.f.default(x, dim)")),
            "f: the pattern of aten.f.default names 'dim', which is neither an operand nor an attribute");
  EXPECT_EQ(refuses(unary("f").spelled_torch("torch.f({x}, {dim})")),
            "op 'f': its torch spelling names 'dim', which is neither an operand nor an attribute");
  EXPECT_EQ(refuses(unary("f").activation()), "op 'f': people put it after a layer, but it is not said what they call it");
  EXPECT_THROW(unary("f").from_aten("aten.f.default"), Error);

  OpTable table;
  table.add(unary("f").from_aten("aten.f.default(x)"));
  EXPECT_EQ(error_of([&] { table.add(unary("f")); }).message(), "op 'f' is defined twice");
  EXPECT_EQ(error_of([&] { table.add(unary("g").from_aten("aten.f.default(x)")); }).message(),
            "aten.f.default maps to both 'f' and 'g'");
}

TEST(Evaluation, reads_attributes_with_dims_as_numbers) {
  Graph graph;
  Builder b(graph, test_table());
  b.create("everything", {},
           {{"boolean", true},
            {"integer", -4},
            {"number", 0.5},
            {"scalar", std::complex<double>(1, 2)},
            {"string", "s"},
            {"dtype", DType::f16},
            {"dim", s0 + 1},
            {"integers", Ints{1, 2}},
            {"numbers", Numbers{0.5}},
            {"dims", Dims{s0, 3}}});
  Bindings bindings{{"s0", 5}};
  Evaluation rounded(graph.nodes[0], graph, {}, bindings, false, nullptr),
      exact(graph.nodes[0], graph, {}, bindings, true, nullptr);
  EXPECT_TRUE(rounded.boolean("boolean"));
  EXPECT_EQ(rounded.integer("integer"), -4);
  EXPECT_EQ(rounded.integer("dim"), 6);
  EXPECT_EQ(rounded.sizes("dims"), (Sizes{5, 3}));
  EXPECT_EQ(rounded.out_shape(), (Sizes{5, 3}));
  EXPECT_EQ(rounded.scalar("scalar"), Scalar(std::complex<double>(1, 2)));
  EXPECT_EQ(rounded.out_dtype(), DType::f16);
  EXPECT_EQ(exact.out_dtype(), DType::f64);
  EXPECT_EQ(exact.stored(DType::c64), DType::c128);
  EXPECT_EQ(exact.stored(DType::i8), DType::i8);
  EXPECT_EQ(error_of([&] { rounded.number("integer"); }).code(), ErrorCode::internal);
  EXPECT_EQ(error_of([&] { rounded.number("nothing"); }).code(), ErrorCode::internal);
  EXPECT_EQ(error_of([&] { rounded.run_region(0, {}); }).code(), ErrorCode::internal);
}

TEST(Evaluation, finds_arrays_by_the_names_of_operands) {
  Graph graph;
  Builder b(graph, test_table());
  ValueId x = graph.add_input({DType::f32, {2}});
  b.create("norm", {x, kNoValue, x});
  b.create("concat", {x, x});
  Array a(DType::f32, {2});
  Bindings bindings;
  Evaluation norm(graph.nodes[0], graph, {&a, nullptr, &a}, bindings, false, nullptr);
  EXPECT_EQ(&norm.array("x"), &a);
  EXPECT_EQ(norm.maybe("weight"), nullptr);
  EXPECT_FALSE(norm.has("weight"));
  EXPECT_TRUE(norm.has("bias"));
  EXPECT_FALSE(norm.has("scale"));
  EXPECT_THROW(norm.array("weight"), Error);
  EXPECT_THROW(norm.maybe("xs"), Error);
  Evaluation concat(graph.nodes[1], graph, {&a, &a}, bindings, false, nullptr);
  EXPECT_EQ(concat.arrays("xs"), (std::vector<const Array*>{&a, &a}));
}

}  // namespace
}  // namespace pycandle
