// The parts that the backend kit offers as calls: memory plan, groups, a program at sizes, folded parameters.
#include <gtest/gtest.h>

#include <set>

#include "backends/kit.h"
#include "plan_cases.h"

namespace pycandle {
namespace {

uint64_t next(uint64_t& state) { return state = state * 6364136223846793005 + 1442695040888963407; }

TEST(Arena, buffers_in_use_at_once_do_not_overlap) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    uint64_t state = seed;
    std::vector<ArenaBuffer> buffers(40);
    size_t total = 0;
    for (ArenaBuffer& b : buffers) {
      b.bytes = (next(state) >> 40) % 1000;
      b.first = (next(state) >> 40) % 30;
      b.last = b.first + (next(state) >> 40) % 5;
      total += b.bytes + 63;
    }
    const Arena arena = place(buffers);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(arena.offsets[i] % 64, 0U);
      EXPECT_LE(arena.offsets[i] + buffers[i].bytes, arena.bytes);
      for (size_t k = 0; k < i; ++k) {
        const bool meet = buffers[i].first <= buffers[k].last && buffers[k].first <= buffers[i].last;
        const bool overlap = arena.offsets[i] < arena.offsets[k] + buffers[k].bytes &&
                             arena.offsets[k] < arena.offsets[i] + buffers[i].bytes;
        EXPECT_FALSE(meet && overlap) << "buffers " << i << " and " << k << " of seed " << seed;
      }
    }
    EXPECT_LT(arena.bytes, total / 2) << "memory is used again";
  }
}

TEST(Arena, a_chain_of_steps_needs_two_buffers) {
  std::vector<ArenaBuffer> buffers;
  for (size_t i = 0; i < 10; ++i) buffers.push_back({4096, i, i + 1});
  EXPECT_EQ(place(buffers).bytes, 2 * 4096U);
  EXPECT_EQ(place({}).bytes, 0U);
}

bool is_pointwise(const Node& node) { return node.op->is_pointwise; }

// Every group reads only what groups before it give, and every node stands in one group.
void expect_runs_in_order(const Program& p, const std::vector<LoopGroup>& groups) {
  std::set<ValueId> there(p.graph.inputs.begin(), p.graph.inputs.end());
  size_t nodes = 0;
  for (const LoopGroup& group : groups) {
    for (const ValueId v : group.inputs) EXPECT_EQ(there.count(v), 1U) << "%" << v << " is read before it exists";
    there.insert(group.outputs.begin(), group.outputs.end());
    nodes += group.nodes.size();
  }
  for (const ValueId v : p.graph.outputs) EXPECT_EQ(there.count(v), 1U) << "%" << v << " is an output";
  EXPECT_EQ(nodes, p.graph.nodes.size());
}

constexpr const char* kTwoBranches = R"(
input %0 "x": f32[2, 3]
input %1 "y": f32[2, 3]
%2 = exp(%0): f32[2, 3]
%3 = sin(%1): f32[2, 3]
%4 = mul(%2, %3): f32[2, 3]
%5 = neg(%4): f32[2, 3]
%6 = transpose(%5) {permutation = [1, 0]}: f32[3, 2]
%7 = transpose(%3) {permutation = [1, 0]}: f32[3, 2]
%8 = add(%6, %7): f32[3, 2]
%9 = exp(%8): f32[3, 2]
output "a" %9
output "b" %5
)";

TEST(Groups, branches_of_one_shape_share_a_loop_until_somebody_reads_it) {
  const Program p = parsed(kTwoBranches);
  const std::vector<LoopGroup> groups = fused_groups(p, is_pointwise);
  expect_runs_in_order(p, groups);
  ASSERT_EQ(groups.size(), 4U);
  EXPECT_EQ(groups[0].nodes, (std::vector<NodeId>{0, 1, 2, 3}));
  EXPECT_EQ(groups[0].inputs, (Values{0, 1}));
  EXPECT_EQ(groups[0].outputs, (Values{3, 5}));
  EXPECT_EQ(groups[3].nodes, (std::vector<NodeId>{6, 7}));
  EXPECT_EQ(fused_groups(p, [](const Node&) { return false; }).size(), p.graph.nodes.size());
}

TEST(Groups, a_loop_is_closed_by_a_reader_of_another_shape) {
  const Program p = parsed(R"(
input %0 "x": f32[4]
%1 = exp(%0): f32[4]
%2 = broadcast(%1) {shape = [3, 4], axes = [1]}: f32[3, 4]
%3 = neg(%2): f32[3, 4]
%4 = neg(%1): f32[4]
output "a" %3
output "b" %4
)");
  const std::vector<LoopGroup> groups = fused_groups(
      p, [](const Node& n) { return n.op->is_pointwise || n.op->name == "broadcast"; });
  expect_runs_in_order(p, groups);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(groups[0].nodes, (std::vector<NodeId>{0}));
  EXPECT_EQ(groups[1].nodes, (std::vector<NodeId>{1, 2}));
}

TEST(AtSizes, every_symbol_is_its_number_and_the_values_stay) {
  const Program p = parsed(R"(
symbol s0 in [1, inf) example 2 from "x" axis 0
input %0 "x": f32[s0, 3]
%1 = reshape(%0) {shape = [3*s0]}: f32[3*s0]
%2 = dim() {value = s0 + 1}: i64[]
%3 = cast(%2) {dtype = f32}: f32[]
%4 = broadcast(%3) {shape = [3*s0], axes = []}: f32[3*s0]
%5 = mul(%1, %4): f32[3*s0]
output "y" %5
)");
  const Program fixed = at_sizes(p, {{"s0", 4}});
  verify(fixed, "at_sizes");
  EXPECT_TRUE(fixed.symbols.empty());
  EXPECT_EQ(print(fixed).find("s0"), std::string::npos) << print(fixed);
  const Array x = numbers(DType::f32, {4, 3});
  const auto run_of = [&](const Program& program) {
    return run(*reference_backend().compile(program, catalogue(), memory_parameters({})), {x}).at(0);
  };
  EXPECT_TRUE(run_of(fixed).same_bytes(run_of(p)));
}

TEST(FoldParameters, what_depends_on_parameters_alone_is_a_parameter) {
  const Program p = parsed(R"(
input %0 "x": f32[2, 3]
parameter %1 "w": f32[4, 3]
parameter %2 "b": f32[4]
%3 = transpose(%1) {permutation = [1, 0]}: f32[3, 4]
%4 = neg(%3): f32[3, 4]
%5 = dot_general(%0, %4) {batch_left = [], batch_right = [], contract_left = [1], contract_right = [0]}: f32[2, 4]
%6 = broadcast(%2) {shape = [2, 4], axes = [1]}: f32[2, 4]
%7 = add(%5, %6): f32[2, 4]
output "y" %7
)");
  const auto weights = memory_parameters({{"w", numbers(DType::f32, {4, 3})}, {"b", numbers(DType::f32, {4}, 7)}});
  const FoldedProgram folded = fold_parameters(p, catalogue(), weights);
  verify(folded.program, "fold_parameters");
  EXPECT_EQ(folded.program.graph.nodes.size(), 2U) << print(folded.program);
  const Array x = numbers(DType::f32, {2, 3}, 3);
  const Array before = run(*reference_backend().compile(p, catalogue(), weights), {x}).at(0);
  const Array after = run(*reference_backend().compile(folded.program, catalogue(), folded.parameters), {x}).at(0);
  EXPECT_TRUE(after.same_bytes(before));
}

TEST(FoldParameters, what_grows_is_left_to_the_run) {
  const Program p = parsed(R"(
input %0 "x": f32[300, 300]
parameter %1 "b": f32[300]
%2 = broadcast(%1) {shape = [300, 300], axes = [1]}: f32[300, 300]
%3 = add(%0, %2): f32[300, 300]
output "y" %3
)");
  const auto weights = memory_parameters({{"b", numbers(DType::f32, {300})}});
  EXPECT_EQ(fold_parameters(p, catalogue(), weights).program.graph.nodes.size(), 2U);
  EXPECT_EQ(fold_parameters(p, catalogue(), weights, 300).program.graph.nodes.size(), 1U);
}

// relu(x + broadcast(bias)) * scale
struct BiasedRelu {
  ValueId x = kNoValue, bias = kNoValue;
  double scale = 0;
  FoundNode broadcast;
  static Pattern<BiasedRelu> pattern() {
    using V = BiasedRelu;
    return node<V>("mul",
                   node<V>("maximum", node<V>("add", hole(&V::x), node<V>("broadcast", hole(&V::bias)).as(&V::broadcast)),
                           node<V>("broadcast", node<V>("constant"))),
                   number(&V::scale));
  }
};

std::string biased_relu(const std::string& broadcast_on_the_left, const std::string& extra = {}) {
  const bool left = !broadcast_on_the_left.empty();
  return R"(
input %0 "x": f32[2, 3]
parameter %1 "b": f32[3]
%2 = broadcast(%1) {shape = [2, 3], axes = [1]}: f32[2, 3]
%3 = add()" +
         std::string(left ? "%2, %0" : "%0, %2") + R"(): f32[2, 3]
%4 = constant() {value = 0.0, shape = [], dtype = f32}: f32[]
%5 = broadcast(%4) {shape = [2, 3], axes = []}: f32[2, 3]
%6 = maximum(%3, %5): f32[2, 3]
%7 = constant() {value = 0.5, shape = [], dtype = f32}: f32[]
%8 = broadcast(%7) {shape = [2, 3], axes = []}: f32[2, 3]
%9 = mul(%8, %6): f32[2, 3]
%10 = neg(%9): f32[2, 3]
output "y" %10
)" + extra;
}

Program with_biased_relu(Program p, int& found) {
  return rewrite_matches<BiasedRelu>(std::move(p), catalogue(), [&](Builder& b, const BiasedRelu& v) -> std::optional<ValueId> {
    ++found;
    EXPECT_EQ(v.scale, 0.5);
    EXPECT_EQ(std::get<Ints>(v.broadcast.attribute("axes")), (Ints{1}));
    EXPECT_EQ(b.shape(v.bias).size(), 1U);
    const ValueId sum = b.add(v.x, b.broadcast(v.bias, b.shape(v.x), {1}));
    return b.mul(b.unary("relu", sum), v.scale);
  });
}

TEST(Patterns, a_match_is_replaced_whatever_the_order_of_commutative_operands) {
  const auto weights = memory_parameters({{"b", numbers(DType::f32, {3}, 7)}});
  for (const char* order : {"", "left"}) {
    const Program before = parsed(biased_relu(order));
    int found = 0;
    const Program after = with_biased_relu(before, found);
    verify(after, "the pattern");
    EXPECT_EQ(found, 1);
    EXPECT_EQ(print(after).find("maximum"), std::string::npos) << print(after);
    const Array x = numbers(DType::f32, {2, 3});
    const Array expected = run(*reference_backend().compile(before, catalogue(), weights), {x}).at(0);
    EXPECT_TRUE(run(*reference_backend().compile(after, catalogue(), weights), {x}).at(0).same_bytes(expected));
  }
}

TEST(Patterns, a_value_that_others_read_is_not_swallowed) {
  int found = 0;
  const Program p = with_biased_relu(parsed(biased_relu("", "output \"sum\" %3\n")), found);
  EXPECT_EQ(found, 0);
  EXPECT_NE(print(p).find("maximum"), std::string::npos);
}

TEST(Patterns, a_tap_on_a_swallowed_value_is_inside_the_new_one) {
  int found = 0;
  const Program p = with_biased_relu(
      parsed(biased_relu("", "tap \"m@0/output\" %3 key \"m\"\ntap \"n@0/output\" %9 key \"n\"\n")), found);
  verify(p, "the pattern");
  EXPECT_EQ(found, 1);
  EXPECT_TRUE(p.taps[0].inside);
  EXPECT_FALSE(p.taps[1].inside);
  EXPECT_EQ(p.taps[0].value, p.taps[1].value);
  EXPECT_EQ(p.graph.nodes.size(), with_biased_relu(parsed(biased_relu("")), found).graph.nodes.size());
}

TEST(Patterns, a_replacement_may_be_declined_and_a_wrong_pattern_is_said) {
  const Program p = parsed(biased_relu(""));
  const auto declined = [](Builder&, const BiasedRelu&) { return std::optional<ValueId>(); };
  EXPECT_TRUE(structurally_equal(rewrite_matches<BiasedRelu>(p, catalogue(), declined).graph, p.graph));
  PatternTerms unknown;
  unknown.terms.push_back({PatternTerm::Kind::node, "no_such_op", {}, {}});
  EXPECT_THROW(rewrite_matches(p, catalogue(), unknown, [](Builder&, const PatternMatch&) { return std::nullopt; }), Error);
}

TEST(Patterns, a_backend_has_ops_of_its_own) {
  static const OpDef twice =
      primitive("mine.twice").operands("x").infer([](const Call& c) { return c.type("x"); }).evaluator([](const Evaluation& e) {
        std::vector<double> x = load_double(e.array("x"));
        for (double& v : x) v *= 2;
        return store(e.out_dtype(), e.array("x").shape(), x);
      });
  struct Doubled {
    ValueId x = kNoValue;
    static Pattern<Doubled> pattern() { return node<Doubled>("add", hole(&Doubled::x), hole(&Doubled::x)); }
  };
  const Program p = parsed(R"(
input %0 "x": f32[4]
%1 = add(%0, %0): f32[4]
%2 = neg(%1): f32[4]
output "y" %2
)");
  const Program own = rewrite_matches<Doubled>(p, catalogue(),
                                               [](Builder& b, const Doubled& v) { return own_node(b, twice, {v.x}).at(0); });
  verify(own, "the pattern");
  EXPECT_NE(print(own).find("mine.twice"), std::string::npos);
  const Array x = numbers(DType::f32, {4});
  const Array expected = run(*reference_backend().compile(p, catalogue(), memory_parameters({})), {x}).at(0);
  EXPECT_TRUE(run(*reference_backend().compile(own, catalogue(), memory_parameters({})), {x}).at(0).same_bytes(expected));
}

}  // namespace
}  // namespace pycandle
