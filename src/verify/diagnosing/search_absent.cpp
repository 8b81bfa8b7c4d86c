// What the model has and the program has not: a factor, a mask, an activation; and a norm that stands elsewhere.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "verify/diagnosing/search.h"

namespace pycandle {
namespace {

std::optional<double> factor_of(const Graph& g, ValueId v) {
  const std::optional<double> number = number_of(g, v);
  return number && std::isfinite(*number) && *number != 0 && *number != 1 ? number : std::nullopt;
}

// The numbers that it multiplies or divides by, each with its op.
std::multiset<std::pair<std::string, double>> factors_of(const Graph& g) {
  std::multiset<std::pair<std::string, double>> factors;
  for (const Node& node : g.nodes) {
    if (node.op->name != "mul" && node.op->name != "div") continue;
    for (ValueId v : node.operands) {
      if (const std::optional<double> number = factor_of(g, v)) factors.emplace(node.op->name, *number);
    }
  }
  return factors;
}

// What an input may say about the scores [batch, …, queries, keys] of attention.
enum class MaskOf { keys, scores };

// The axes of an input beside those of the scores; nothing where they do not fit. A mask of keys is [batch, keys], one of
// scores is [queries, keys] with the axes of the scores before it, the first ones first: [batch, queries, keys].
std::optional<Shape> beside_scores(const Shape& given, const Shape& scores, MaskOf of) {
  if (given.size() < 2 || given.size() > scores.size() || (of == MaskOf::keys && given.size() != 2)) return std::nullopt;
  Shape aligned(scores.size(), Dim(1));
  const size_t last = of == MaskOf::keys ? 1 : 2;
  std::copy(given.begin(), given.end() - static_cast<std::ptrdiff_t>(last), aligned.begin());
  std::copy(given.end() - static_cast<std::ptrdiff_t>(last), given.end(), aligned.end() - static_cast<std::ptrdiff_t>(last));
  for (size_t i = 0; i < scores.size(); ++i) {
    if (aligned[i] != Dim(1) && aligned[i] != scores[i]) return std::nullopt;
  }
  return aligned;
}

// How the numbers of an input are read: those that are not 0 are seen or hidden, or they are added to the scores.
enum class MaskMeans { seen, hidden, added };

ValueId mask_of_scores(const MistakeSite& m, ValueId given, const Shape& aligned, const Shape& scores, MaskMeans means) {
  const ValueId mask = m.b.broadcast_to(m.b.reshape(given, aligned), scores);
  if (means == MaskMeans::added) return m.b.cast(mask, m.b.dtype(m.operand("query")));
  const ValueId is_set = m.b.dtype(given) == DType::boolean ? mask : m.b.binary("ne", mask, m.b.like(mask, 0.0));
  return means == MaskMeans::seen ? is_set : m.b.logical_not(is_set);
}

Shape shape_of_scores(const Graph& g, const Node& attention) {
  Shape scores = g.type(attention.operands.at(attention.op->operand_index("query"))).shape;
  const Shape& keys = g.type(attention.operands.at(attention.op->operand_index("key"))).shape;
  scores.back() = keys.at(keys.size() - 2);
  return scores;
}

}  // namespace

// ---- a number that the recorded program multiplies or divides by, and the source code does not

void Search::absent_factors() {
  if (!recorded_program()) return;
  const std::multiset<std::pair<std::string, double>> present = factors_of(graph());
  std::set<std::pair<std::string, double>> factors;
  const auto recorded = factors_of(recorded_program()->graph);
  for (const auto& factor : recorded) {
    if (recorded.count(factor) > present.count(factor)) factors.insert(factor);
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

void Search::try_factor(NodeId n, const Mistake& v, const std::string& op) {
  if (try_mistake(n, v)) found_.back().cause.op = op;
}

// ---- attention without a mask: one of the program's inputs may be meant

void Search::absent_masks() {
  if (!s_.input_values) return;
  for (size_t n = graph().nodes.size(); n-- > 0;) {
    const Node& node = graph().nodes[n];
    const int mask = node.op->operand_index("attn_mask");
    if (mask < 0 || node.operands[mask] != kNoValue) continue;
    const Shape scores = shape_of_scores(graph(), node);
    for (const Suspect::InputValue& input : s_.input_values()) {
      for (const MaskOf of : {MaskOf::keys, MaskOf::scores}) {
        const std::optional<Shape> aligned = beside_scores(input.type.shape, scores, of);
        if (!aligned) continue;
        for (const MaskMeans means : {MaskMeans::seen, MaskMeans::hidden, MaskMeans::added}) {
          if (is_over()) return;
          if ((means == MaskMeans::added) != is_floating(input.type.dtype) && of == MaskOf::scores) continue;
          const auto mask_from = [&](const MistakeSite& m, ValueId given) {
            return mask_of_scores(m, given, *aligned, scores, means);
          };
          try_mask(n, input, mask_from);
        }
      }
    }
  }
}

void Search::try_mask(NodeId n, const Suspect::InputValue& input,
                      const std::function<ValueId(const MistakeSite&, ValueId given)>& mask_from) {
  Slice more{program(), {}, {}, {}, false};
  const ValueId extra = add_input(more.program, input.type, input.name);
  Mistake with;
  with.build = [&](const MistakeSite& m) {
    const ValueId given = m.b.graph().inputs[position_of(more.program, extra)];
    return m.same(m.with_operand("attn_mask", mask_from(m, given)));
  };
  auto p = with_mistake(more, trials_.table(), graph().nodes[n], with, 0);
  if (!p) return;
  std::vector<Array> inputs = s_.inputs;
  inputs.push_back(input.value);
  if (auto fit = explained_by(std::move(*p), std::move(inputs)))
    add(cause(n, "missing mask", "no mask", fmt::format("a mask made from {}", input.name)), std::move(*fit));
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
