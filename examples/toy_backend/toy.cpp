#include "kernels.h"

namespace toy {

// a * b + c, an op that only this backend has: its pattern, and what it gives.
const OpDef& multiply_add() {
  static const OpDef op = primitive("toy.multiply_add").operands("a", "b", "c").infer([](const Call& c) { return c.type("a"); });
  return op;
}

struct MultiplyAdd {
  ValueId a = kNoValue, b = kNoValue, c = kNoValue;
  static Pattern<MultiplyAdd> pattern() {
    using V = MultiplyAdd;
    return node<V>("add", node<V>("mul", hole(&V::a), hole(&V::b)), hole(&V::c));
  }
};

Program find_multiply_adds(Program p, const OpTable& table) {
  return rewrite_matches<MultiplyAdd>(std::move(p), table, [](Builder& b, const MultiplyAdd& v) -> std::optional<ValueId> {
    if (b.dtype(v.a) != DType::f32) return std::nullopt;
    return own_node(b, multiply_add(), {v.a, v.b, v.c}).at(0);
  });
}

class ToyExecutable final : public Executable {
 public:
  ToyExecutable(Program program, std::shared_ptr<const ParameterSource> parameters)
      : p_(std::move(program)), parameters_(std::move(parameters)) {}

  std::vector<Array> run(const RunRequest& request) const override {
    const Bindings sizes = bind_inputs(p_, request.inputs, request.symbols);
    if (request.found) *request.found = sizes;
    PerValue<View> values(p_.graph.values.size());
    for (size_t i = 0; i < p_.inputs.size(); ++i) values[p_.inputs[i].value] = dense(request.inputs[i]);
    for (const Parameter& q : p_.parameters) {
      if (q.value != kNoValue) values[q.value] = dense(parameters_->get(q));
    }
    for (size_t i = 0; i < p_.states.size(); ++i) {
      const State& s = p_.states[i];
      values[s.value] = dense(request.states ? (*request.states)[i] : parameters_->get_state(s, p_.graph.type(s.value)));
    }
    PerValue<std::vector<size_t>> taps(p_.graph.values.size());
    for (size_t t = 0; t < p_.taps.size(); ++t) {
      if (!p_.taps[t].inside) taps[p_.taps[t].value].push_back(t);
    }
    const auto show = [&](ValueId v) {
      for (const size_t tap : taps[v]) request.on_tap(tap, gathered(values[v]));
    };
    if (request.on_tap) std::for_each(p_.graph.inputs.begin(), p_.graph.inputs.end(), show);

    uint64_t random_ops = 0;
    Evaluator evaluator{sizes, request.seed, &random_ops};
    for (const Node& node : p_.graph.nodes) {
      std::vector<View> results = compute(node, values, evaluator);
      for (size_t r = 0; r < results.size(); ++r) values[node.results[r]] = std::move(results[r]);
      if (request.on_tap) std::for_each(node.results.begin(), node.results.end(), show);
    }

    std::vector<Array> outputs;
    for (const Output& o : p_.outputs) outputs.push_back(gathered(values[o.value]));
    for (size_t i = 0; request.states && i < p_.states.size(); ++i) {
      if (p_.states[i].updated != kNoValue) (*request.states)[i] = gathered(values[p_.states[i].updated]);
    }
    return outputs;
  }

 private:
  std::vector<View> compute(const Node& node, const PerValue<View>& values, Evaluator& evaluator) const {
    const Call c(*node.op, p_.graph, node.operands, node.attributes, node.regions);
    const std::string& op = node.op->name;
    const auto x = [&](size_t i) -> const View& { return values[node.operands[i]]; };
    const auto is_f32 = [&](ValueId v) { return v != kNoValue && p_.graph.type(v).dtype == DType::f32; };
    const auto sizes_of = [&](ValueId v) { return evaluate(p_.graph.type(v).shape, evaluator.bindings); };

    View view;
    if (node.operands.size() == 1 && moved(c, x(0), evaluator.bindings, view)) return {view};
    if (!node.operands.empty() && std::all_of(node.operands.begin(), node.operands.end(), is_f32)) {
      if (const Unary f = find_unary(op)) return {dense(map1(x(0), f))};
      if (const Binary f = find_binary(op))
        return {dense(map3(x(0), x(1), x(1), [&](float a, float b, float) { return f(a, b); }))};
      if (op == multiply_add().name) {
        return {dense(map3(x(0), x(1), x(2), [](float a, float b, float c) { return std::fma(a, b, c); }))};
      }
      if (op == "reduce_sum" || op == "reduce_max") {
        return {dense(reduced(x(0), c.integers("axes"), sizes_of(node.results[0]), op == "reduce_sum"))};
      }
      if (op == "dot_general") return {dense(product(x(0), x(1), c, sizes_of(node.results[0])))};
      if (op == "softmax") return {dense(softmax(x(0)))};
    }
    // The catalogue knows how to compute every other primitive.
    std::vector<Array> operands;
    for (const ValueId v : node.operands) operands.push_back(v == kNoValue ? Array() : gathered(values[v]));
    std::vector<View> results;
    for (Array& result : evaluator.run(p_.graph, node, operands)) results.push_back(dense(std::move(result)));
    return results;
  }

  const Program p_;
  const std::shared_ptr<const ParameterSource> parameters_;
};

class ToyBackend final : public Backend {
 public:
  std::string name() const override { return "toy"; }

  // softmax over the last axis, in f32. What is not claimed comes as primitives.
  bool claims(const Call& c) const override {
    return c.op().name == "softmax" && c.type("x").dtype == DType::f32 && c.rank("x") > 0 &&
           (c.integer("dim") == c.rank("x") - 1 || c.integer("dim") == -1);
  }

  std::unique_ptr<Executable> compile(const Program& program, const OpTable& table,
                                      std::shared_ptr<const ParameterSource> parameters, const PipelineOptions& options,
                                      std::vector<PassTiming>* timings) const override {
    if (has_data_bound_sizes(program)) {
      throw Error(ErrorCode::gap, "the toy backend needs all sizes before it runs, and data decides some of this program");
    }
    Program p = run_backend_pipeline(program, table, [this](const Call& c) { return claims(c); }, options, timings,
                                     {{"find-multiply-adds", find_multiply_adds}});
    return std::make_unique<ToyExecutable>(std::move(p), std::move(parameters));
  }
};

const Backend& backend() {
  static const ToyBackend toy;
  return toy;
}

}  // namespace toy

PYCANDLE_BACKEND(toy::backend());
