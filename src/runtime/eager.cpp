#include "runtime/eager.h"

#include <cstdlib>
#include <string_view>

#include "base/error.h"

namespace pycandle {
namespace {

// The node as a program: an input for each operand, an output for each result.
Program alone(const Program& p, const Node& node) {
  Program one;
  one.name = p.name;
  one.symbols = p.symbols;
  for (Symbol& s : one.symbols) {
    s.input.clear();
    s.axis = -1;  // the run is given all sizes
  }
  Node copy = node;
  copy.results.clear();
  copy.origin = {};
  for (ValueId& operand : copy.operands) {
    if (operand == kNoValue) continue;
    operand = one.graph.add_input(p.graph.type(operand));
    one.inputs.push_back({"operand " + std::to_string(one.inputs.size()), operand, {}});
  }
  std::vector<Type> types;
  for (const ValueId result : node.results) types.push_back(p.graph.type(result));
  const Node& added = one.graph.add_node(std::move(copy), std::move(types));
  for (const ValueId result : added.results) one.outputs.push_back({"result " + std::to_string(one.outputs.size()), result});
  one.bind_outputs();
  return one;
}

class EagerExecutable final : public Executable {
 public:
  EagerExecutable(const Backend& backend, Program p, const OpTable& table, std::shared_ptr<const ParameterSource> parameters,
                  const PipelineOptions& options)
      : p_(std::move(p)), parameters_(std::move(parameters)) {
    PipelineOptions quiet = options;
    quiet.dump_dir.clear();
    for (const Node& node : p_.graph.nodes) nodes_.push_back(backend.compile(alone(p_, node), table, parameters_, quiet));
  }

  std::vector<Array> run(const RunRequest& request) const override {
    Bindings sizes = bind_inputs(p_, request.inputs, request.symbols);
    PerValue<Array> values(p_.graph.values.size());
    for (size_t i = 0; i < p_.inputs.size(); ++i) values[p_.inputs[i].value] = request.inputs[i];
    for (const Parameter& q : p_.parameters) {
      if (q.value != kNoValue) values[q.value] = parameters_->get(q);
    }
    for (size_t i = 0; i < p_.states.size(); ++i) {
      const State& s = p_.states[i];
      values[s.value] = request.states ? (*request.states)[i] : parameters_->get_state(s, p_.graph.type(s.value));
    }
    show_taps(request, values, kNoNode);
    for (NodeId n = 0; p_.graph.nodes.has(n); ++n) {
      run_node(n, request, sizes, values);
      show_taps(request, values, n);
    }
    std::vector<Array> outputs;
    for (const Output& output : p_.outputs) outputs.push_back(values[output.value]);
    for (size_t i = 0; request.states && i < p_.states.size(); ++i) {
      if (p_.states[i].updated != kNoValue) (*request.states)[i] = values[p_.states[i].updated];
    }
    if (request.found) *request.found = sizes;
    return outputs;
  }

 private:
  void run_node(NodeId n, const RunRequest& request, Bindings& sizes, PerValue<Array>& values) const {
    const Node& node = p_.graph.nodes[n];
    RunRequest one;
    for (const ValueId v : node.operands) {
      if (v != kNoValue) one.inputs.push_back(values[v]);
    }
    one.symbols = sizes;
    Bindings found = sizes;
    one.found = &found;
    one.seed = request.seed + static_cast<uint64_t>(n);
    try {
      const std::vector<Array> results = nodes_[n]->run(one);
      for (size_t i = 0; i < results.size(); ++i) values[node.results[i]] = results[i];
    } catch (Error& error) {
      throw error.op(node.op->name)
          .module_path(p_.module_path(node.origin))
          .python(p_.file_line(node.origin), p_.source_line(node.origin));
    }
    sizes.merge(found);
  }

  // Those whose value exists now: of the node, or before all nodes.
  void show_taps(const RunRequest& request, const PerValue<Array>& values, NodeId node) const {
    if (!request.on_tap) return;
    for (size_t i = 0; i < p_.taps.size(); ++i) {
      const Tap& tap = p_.taps[i];
      if (!tap.inside && p_.graph.values.at(tap.value).node == node) request.on_tap(i, values[tap.value]);
    }
  }

  Program p_;
  std::shared_ptr<const ParameterSource> parameters_;
  PerNode<std::unique_ptr<Executable>> nodes_;
};

}  // namespace

bool is_eager_wanted() {
  const char* wanted = std::getenv("PYCANDLE_EAGER");
  return wanted != nullptr && *wanted != '\0' && std::string_view(wanted) != "0";
}

std::unique_ptr<Executable> compile_as_wanted(const Backend& backend, const Program& p, const OpTable& table,
                                              std::shared_ptr<const ParameterSource> parameters, const PipelineOptions& options,
                                              std::vector<PassTiming>* timings) {
  if (!is_eager_wanted()) return backend.compile(p, table, std::move(parameters), options, timings);
  return std::make_unique<EagerExecutable>(backend, p, table, std::move(parameters), options);
}

}  // namespace pycandle
