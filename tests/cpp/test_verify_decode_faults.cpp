// Faults put into derived decode steps on purpose: the proof finds every one of them.
#include <functional>

#include "decode_cases.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

// Node `number` of an op gets other operands, attributes, or is built anew.
using Change = std::function<Values(Builder&, const Node&, Values operands)>;

Program changed(const Program& p, std::string_view op, int number, const Change& change) {
  int seen = 0;
  Program result = rewrite_outside_regions(p, catalogue(), [&](Builder& b, const Node& node, const Values& operands) {
    if (node.op->name != op || seen++ != number) return std::optional<Values>();
    return std::optional(change(b, node, operands));
  });
  EXPECT_GT(seen, number) << "the step has no such " << op;
  return result;
}

Change with_operand(size_t i, std::function<ValueId(Builder&, ValueId)> f) {
  return [i, f = std::move(f)](Builder& b, const Node& node, Values operands) {
    operands[i] = f(b, operands[i]);
    return b.create_all(node.op->name, operands, node.attributes, node.regions);
  };
}

Change with_attribute(std::string name, Attribute value) {
  return [name = std::move(name), value = std::move(value)](Builder& b, const Node& node, const Values& operands) {
    Attributes attributes = node.attributes;
    for (auto& [key, attribute] : attributes) {
      if (key == name) attribute = value;
    }
    return b.create_all(node.op->name, operands, attributes);
  };
}

Change swapped(size_t i, size_t k) {
  return [i, k](Builder& b, const Node& node, Values operands) {
    std::swap(operands[i], operands[k]);
    return b.create_all(node.op->name, operands, node.attributes);
  };
}

std::function<ValueId(Builder&, ValueId)> plus(int64_t n) {
  return [n](Builder& b, ValueId v) { return b.maximum(b.add(v, b.full(n, DType::i64)), b.full(int64_t{0}, DType::i64)); };
}
std::function<ValueId(Builder&, ValueId)> reversed(int64_t axis) {
  return [axis](Builder& b, ValueId v) { return b.reverse(v, {axis}); };
}

struct Fault {
  const char *program, *name;
  std::function<void(Program&)> put_in;
};

Fault at(const char* program, const char* name, std::string_view op, int number, Change change) {
  return {program, name, [op, number, change = std::move(change)](Program& p) { p = changed(p, op, number, change); }};
}

ValueId state_value(const Program& p, const std::string& name) {
  for (const State& s : p.states) {
    if (s.name == name) return s.value;
  }
  throw Error(ErrorCode::internal, "the step has no state " + name);
}

// Attention reads what the cache was before the new rows were put in.
Fault reads_before(const char* program, const char* name, size_t operand) {
  return {program, name, [operand](Program& p) {
            for (Node& node : p.graph.nodes) {
              if (node.op->name != "cached_attention") continue;
              node.operands[operand] = p.graph.nodes[p.graph.values[node.operands[operand]].node].operands[0];
              return;
            }
          }};
}

Fault never_updated(const char* program, const char* name, const std::string& state) {
  return {program, name, [state](Program& p) {
            for (State& s : p.states) {
              if (s.name == state) s.updated = s.value;
            }
            p.bind_outputs();
          }};
}

// One length for all sequences.
ValueId first_sequence(Builder& b, ValueId lengths) { return b.broadcast_to(b.slice(lengths, 0, 0, 1), b.shape(lengths)); }

std::vector<Fault> faults_in_positions_and_masks() {
  const auto zero = [](Builder& b, ValueId v) { return b.like(v, int64_t{0}); };
  return {
      // positions
      at("sliding", "positions one too far", "take", 0, with_operand(1, plus(1))),
      at("sliding", "positions one too near", "take", 0, with_operand(1, plus(-1))),
      at("sliding", "the sine of another position", "take", 1, with_operand(1, plus(1))),
      at("sliding", "positions of the first sequence for all", "reshape", 1, with_operand(0, first_sequence)),
      at("sliding", "positions that begin at zero in every step", "reshape", 1, with_operand(0, zero)),
      at("grouped", "learned positions one too far", "take", 0, with_operand(1, plus(1))),
      // masks
      at("sliding", "a mask that lets one token too many in", "cached_attention", 1, with_operand(3, plus(1))),
      at("sliding", "a mask that leaves the last token out", "cached_attention", 1, with_operand(3, plus(-1))),
      at("sliding", "the mask of the first sequence for all", "cached_attention", 1, with_operand(3, first_sequence)),
      at("sliding", "a window one too wide", "cached_attention", 0, with_attribute("window", int64_t{5})),
      at("sliding", "a window one too narrow", "cached_attention", 0, with_attribute("window", int64_t{3})),
      at("sliding", "no window", "cached_attention", 0, with_attribute("window", {})),
      at("sliding", "a window where there is none", "cached_attention", 1, with_attribute("window", int64_t{4})),
      at("sliding", "no mask of keys", "cached_attention", 0,
         [](Builder& b, const Node& node, Values operands) {
           operands[5] = kNoValue;
           return b.create_all(node.op->name, operands, node.attributes);
         }),
      at("sliding", "the mask of keys of the other sequence", "cached_attention", 0, with_operand(5, reversed(0))),
  };
}

std::vector<Fault> faults_in_the_cache() {
  return {
      // keys and values
      at("sliding", "keys and values swapped", "cached_attention", 0, swapped(1, 2)),
      at("sliding", "keys of the wrong head", "cached_attention", 0, with_operand(1, reversed(1))),
      at("sliding", "values of the wrong head", "cached_attention", 1, with_operand(2, reversed(1))),
      at("sliding", "queries of the wrong head", "cached_attention", 1, with_operand(0, reversed(1))),
      at("sliding", "keys of the other sequence", "cached_attention", 0, with_operand(1, reversed(0))),
      at("sliding", "another scale", "cached_attention", 0, with_attribute("scale", 0.5)),
      // the cache
      at("sliding", "keys put in one row too far", "cache_append", 0, with_operand(2, plus(1))),
      at("sliding", "values put in one row too near", "cache_append", 1, with_operand(2, plus(-1))),
      at("sliding", "rows of the first sequence's length", "cache_append", 0, with_operand(2, first_sequence)),
      at("sliding", "new rows in reverse", "cache_append", 0, with_operand(1, reversed(2))),
      at("sliding", "the mask put in at the wrong rows", "cache_append", 2, with_operand(2, plus(1))),
      at("rolling", "rows put in one row too near", "cache_append", 0, with_operand(2, plus(-1))),
      at("rolling", "queries stand as if no row had gone", "cached_attention", 0,
         [](Builder& b, const Node& node, Values operands) {
           operands[3] = b.graph().nodes[b.graph().values[operands[3]].node].operands[0];  // lengths, not lengths - dropped
           return b.create_all(node.op->name, operands, node.attributes);
         }),
      at("rolling", "positions one too near", "take", 0, with_operand(1, plus(-1))),
      reads_before("sliding", "keys without the new ones", 1),
      reads_before("sliding", "values without the new ones", 2),
      never_updated("sliding", "keys that are never kept", "key"),
      never_updated("sliding", "values that are never kept", "value"),
      never_updated("sliding", "a mask that is never kept", "key_mask"),
      {"sliding", "the cache of another layer",
       [](Program& p) {
         const ValueId first = state_value(p, "key"), second = state_value(p, "key.2");
         for (Node& node : p.graph.nodes) {
           if (node.op->name == "cache_append" && node.operands[0] == second) node.operands[0] = first;
         }
       }},
  };
}

std::vector<Fault> faults_in_recurrence() {
  return {
      // running sums, ALiBi, tables
      at("alibi", "a running sum that begins anew", "cache_last", 0,
         [](Builder&, const Node&, const Values& operands) { return Values{operands[1]}; }),
      at("alibi", "the running sum of the token before last", "cache_last", 0, with_operand(2, plus(-1))),
      never_updated("alibi", "a running sum that is never kept", "sum"),
      at("alibi", "slopes of the wrong head", "cached_attention", 0, with_operand(6, reversed(0))),
      // recurrent layers, convolutions, tokens that are shifted
      at("recurrent", "a state that begins anew in every step", "cache_last", 0,
         [](Builder&, const Node&, const Values& operands) { return Values{operands[1]}; }),
      at("recurrent", "a state that begins with another number", "cache_last", 1,
         with_operand(1, [](Builder& b, ValueId v) { return b.like(v, 0.25); })),
      at("recurrent", "the state of the token before last", "cache_last", 0, with_operand(2, plus(-1))),
      at("recurrent", "the state of the other sequence", "scan", 0, with_operand(0, reversed(0))),
      never_updated("recurrent", "a stale state", "state.2"),
      at("recurrent", "states put in one row too far", "cache_append", 3, with_operand(2, plus(1))),
      at("convolutions", "a window one too far", "gather", 0, with_operand(1, plus(1))),
      at("convolutions", "no padding before the first token", "select", 0,
         [](Builder&, const Node&, const Values& operands) { return Values{operands[2]}; }),
      at("convolutions", "a kernel from its end", "convolution", 1, with_operand(1, reversed(2))),
      at("convolutions", "new tokens in reverse", "convolution", 1,
         [](Builder& b, const Node& node, Values operands) {
           operands[0] = b.reverse(operands[0], {2});
           return b.create_all(node.op->name, operands, node.attributes);
         }),
      at("token shift", "the token itself for the one before it", "gather", 0, with_operand(1, plus(1))),
      at("token shift", "a running product that begins anew", "cache_last", 1,
         [](Builder&, const Node&, const Values& operands) { return Values{operands[1]}; }),
      at("sinks", "no place behind the keys", "concat", 0,
         [](Builder& b, const Node& node, Values operands) {
           operands[1] = b.like(operands[1], -1e30);
           return b.create_all(node.op->name, operands, node.attributes);
         }),
      at("encoder and decoder", "a bias of another position", "take", 0, with_operand(1, plus(1))),
      at("encoder and decoder", "an encoder's output of the other sequence", "scaled_dot_product_attention", 0,
         with_operand(1, reversed(0))),
  };
}

std::vector<Fault> faults() {
  std::vector<Fault> all = faults_in_positions_and_masks();
  for (const auto& more : {faults_in_the_cache(), faults_in_recurrence()}) all.insert(all.end(), more.begin(), more.end());
  return all;
}

TEST(DecodeProof, FindsEveryFaultInTheStep) {
  const std::vector<Fault> all = faults();
  EXPECT_GE(all.size(), 20U);
  for (const Fault& fault : all) {
    SCOPED_TRACE(std::string(fault.program) + ": " + fault.name);
    const Program p = causal_program(fault.program);
    DecodeStep step = derive_decode_step(p, catalogue());
    fault.put_in(step.step);
    EXPECT_FALSE(proof_of(p, step).passed());
  }
}

TEST(DecodeProof, NamesTheFirstWrongTokenLayerAndCause) {
  const Program p = causal_program("sliding");
  DecodeStep step = derive_decode_step(p, catalogue());
  step.step = changed(step.step, "cached_attention", 1, with_attribute("scale", 0.5));
  const DecodeProof proof = proof_of(p, step);
  ASSERT_FALSE(proof.passed());
  const WrongToken& wrong = *proof.schedules.front().wrong;
  EXPECT_EQ(wrong.value, "output:logits") << "the first layer is right, and it is a tap";
  EXPECT_GT(wrong.position, 0) << "the first token attends to itself alone, whatever the scale";
}

TEST(DecodeProof, SaysThatPositionsAreOffByOne) {
  const Program p = causal_program("shifted");
  DecodeStep step = derive_decode_step(p, catalogue());
  step.step = changed(step.step, "take", 0, with_operand(1, plus(1)));
  const DecodeProof proof = proof_of(p, step);
  ASSERT_FALSE(proof.passed());
  EXPECT_EQ(proof.schedules.front().wrong->cause, "it is the value of position 1: positions are off by one");
}

}  // namespace
}  // namespace pycandle
