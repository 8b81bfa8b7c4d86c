// What the model has and the program has not: a factor, a mask, an activation; and a norm that stands elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/diagnosing/search.h"

namespace pycandle {
namespace {

std::optional<double> constant_value(const Graph& g, ValueId v) {
  const NodeId made_by = g.values[v].node;
  if (made_by < 0) return std::nullopt;
  const Node& node = g.nodes[made_by];
  if (node.op->name == "broadcast") return constant_value(g, node.operands[0]);
  if (node.op->name != "constant") return std::nullopt;
  const double number = as_double(Call(*node.op, g, node.operands, node.attributes, node.regions).scalar("value"));
  return std::isfinite(number) && number != 0 && number != 1 ? std::optional(number) : std::nullopt;
}

// Which keys a mask [batch, keys] lets attention see, as the mask of these queries: […, queries, keys].
ValueId mask_of_keys(const MistakeSite& m, ValueId given) {
  const Shape& keys = m.b.shape(given);
  Shape of_keys = m.b.shape(m.operand("query"));
  for (Dim& d : of_keys) d = Dim(1);
  if (of_keys.size() > 2) of_keys.front() = keys[0];
  of_keys.back() = keys[1];
  const ValueId mask = m.b.reshape(given, of_keys);
  const ValueId is_seen = m.b.dtype(given) == DType::boolean ? mask : m.b.binary("ne", mask, m.b.like(mask, 0.0));
  Shape whole = of_keys;
  whole[whole.size() - 2] = m.b.shape(m.operand("query"))[whole.size() - 2];
  return m.b.broadcast_to(is_seen, whole);
}

}  // namespace

// ---- a number that the recorded program multiplies or divides by, and the source code does not

void Search::absent_factors() {
  if (!recorded_program()) return;
  std::set<std::pair<std::string, double>> factors;
  for (const Node& node : recorded_program()->graph.nodes) {
    if (node.op->name != "mul" && node.op->name != "div") continue;
    for (ValueId v : node.operands) {
      if (const std::optional<double> number = constant_value(recorded_program()->graph, v))
        factors.emplace(node.op->name, *number);
    }
  }
  const Graph& g = graph();
  for (const auto& [op, number] : factors) {
    const auto scaled = [op = op, number = number](Builder& b, ValueId v) {
      return is_floating(b.dtype(v)) ? b.binary(op, v, b.full(number, b.dtype(v))) : kNoValue;
    };
    const std::string text = fmt::format("{} {:.6g}", op == "mul" ? "times" : "divided by", number);
    for (size_t n = g.nodes.size(); n-- > 0;) {
      Mistake after{"missing factor", "no factor", text, {}, {}, false};
      after.build = [&](const MistakeSite& m) {
        Values results = m.same(m.operands);
        if (results.size() != 1) return results;
        const ValueId more = scaled(m.b, results[0]);
        return more == kNoValue ? results : Values{more};
      };
      try_factor(n, after, op);
      for (size_t o = 0; o < g.nodes[n].operands.size(); ++o) {
        const ValueId v = g.nodes[n].operands[o];
        if (v == kNoValue || g.values[v].node >= 0) continue;  // it is an input
        Mistake before = after;
        before.build = [&, o](const MistakeSite& m) {
          Values operands = m.operands;
          const ValueId more = scaled(m.b, operands[o]);
          if (more != kNoValue) operands[o] = more;
          return m.same(operands);
        };
        try_factor(n, before, op);
      }
    }
  }
}

void Search::try_factor(size_t n, const Mistake& v, const std::string& op) {
  if (try_mistake(n, v)) found_.back().cause.op = op;
}

// ---- attention without a mask: one of the program's inputs may be meant

void Search::absent_masks() {
  if (!s_.input_values) return;
  for (size_t n = graph().nodes.size(); n-- > 0;) {
    const Node& node = graph().nodes[n];
    const int mask = node.op->operand_index("attn_mask");
    if (mask < 0 || node.operands[mask] != kNoValue) continue;
    for (const auto& [name, type, value] : s_.input_values()) {
      if (is_over()) return;
      if (type.rank() != 2) continue;
      Slice more{program(), {}, {}, {}, false};
      const ValueId extra = add_input(more.program, type, name);
      Mistake with;
      with.build = [&](const MistakeSite& m) {
        const ValueId given = m.b.graph().inputs[position_of(more.program, extra)];
        return m.same(m.with_operand("attn_mask", mask_of_keys(m, given)));
      };
      auto p = with_mistake(more, trials_.table(), node, with, 0);
      if (!p) continue;
      std::vector<Array> inputs = s_.inputs;
      inputs.push_back(value);
      if (auto fit = explained_by(std::move(*p), std::move(inputs)))
        add(cause(n, "missing mask", "no mask", fmt::format("a mask made from {}", name)), std::move(*fit));
    }
  }
}

// ---- a function after one of the nodes, or of what one reads, written in the model without a module of its own

void Search::absent_activations() {
  const Graph& g = graph();
  const auto is_float = [&](ValueId v) { return v != kNoValue && is_floating(g.type(v).dtype); };
  std::set<ValueId> inputs;
  for (const Input& input : program().inputs) inputs.insert(input.value);
  for (size_t n = g.nodes.size(); n-- > 0;) {
    const Node& node = g.nodes[n];
    for (const Activation& f : activations(trials_.table())) {
      Mistake more{"activation", "no activation", f.called->noun, {}, {}, false};
      const auto of = [&f](Builder& b, ValueId v) { return b.create(f.op->name, {v}, f.called->attributes); };
      const auto try_it = [&] {
        if (try_mistake(n, more)) found_.back().cause.op = f.op->name;
      };
      if (node.results.size() == 1 && is_float(node.results[0])) {
        more.build = [&of](const MistakeSite& m) { return Values{of(m.b, m.same(m.operands)[0])}; };
        try_it();
      }
      for (size_t o = 0; o < node.operands.size(); ++o) {
        if (!is_float(node.operands[o]) || inputs.count(node.operands[o]) == 0) continue;
        more.build = [&of, o](const MistakeSite& m) {
          Values operands = m.operands;
          operands[o] = of(m.b, operands[o]);
          return m.same(operands);
        };
        try_it();
      }
    }
  }
}

// ---- a norm of one value where the model has the norm of a sum: the sum comes before it, not after

void Search::norm_order() {
  if (!s_.anywhere) return;
  for (size_t n = graph().nodes.size(); n-- > 0;) {
    const Node& node = graph().nodes[n];
    if (!node.op->name.ends_with("_norm") || node.operands.empty() || !s_.anywhere) continue;
    for (const auto& [name, value] : s_.anywhere(graph().type(node.operands[0]))) {
      if (is_over()) return;
      Slice more{program(), {}, {}, {}, false};
      const ValueId extra = add_input(more.program, graph().type(node.operands[0]), name);
      Mistake with;
      with.build = [&](const MistakeSite& m) {
        Values operands = m.operands;
        operands[0] = m.b.add(operands[0], m.b.graph().inputs[position_of(more.program, extra)]);
        return m.same(operands);
      };
      auto p = with_mistake(more, trials_.table(), node, with, 0);
      if (!p) continue;
      std::vector<Array> inputs = s_.inputs;
      inputs.push_back(value);
      if (auto fit = explained_by(std::move(*p), std::move(inputs)))
        add(cause(n, "norm order", "the norm before the sum", "the norm after it, of the sum with " + name), std::move(*fit));
    }
  }
}

}  // namespace pycandle
