#include "backends/fold_parameters.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/evaluator.h"
#include "base/error.h"
#include "passes/rewriter.h"

namespace pycandle {
namespace {

constexpr size_t kSmall = size_t{1} << 16;  // bytes: worth its memory whatever it is made from

// The folded values, and everything else as it was.
class WithFolded final : public ParameterSource {
 public:
  WithFolded(std::shared_ptr<const ParameterSource> inner, std::map<std::string, Array> folded)
      : inner_(std::move(inner)), folded_(std::move(folded)) {}
  Array get(const Parameter& p) const override {
    const auto found = folded_.find(p.name);
    return found != folded_.end() ? found->second : inner_->get(p);
  }
  Array get_state(const State& s, const Type& type) const override { return inner_->get_state(s, type); }
  Hash128 fingerprint(const Parameter& p) const override {
    return folded_.count(p.name) != 0 ? ParameterSource::fingerprint(p) : inner_->fingerprint(p);
  }
  void open(const Program& p) const override { inner_->open(p); }
  const Safetensors* file(const std::string& name) const override { return inner_->file(name); }
  void release(const Array& a) const override { inner_->release(a); }
  void use(const Array& a) const override { inner_->use(a); }
  bool is_streamed() const override { return inner_->is_streamed(); }

 private:
  std::shared_ptr<const ParameterSource> inner_;
  std::map<std::string, Array> folded_;
};

size_t bytes_of(const Type& type) { return static_cast<size_t>(element_count(evaluate(type.shape, {}))) * size_of(type.dtype); }

class Folding {
 public:
  Folding(const Program& p, const ParameterSource& source, double most_growth)
      : p_(p),
        source_(source),
        most_growth_(most_growth),
        is_known_(p.graph.values.size()),
        wanted_(p.graph.values.size()),
        users_(p.graph.values.size()),
        arrays_(p.graph.values.size()),
        parameter_of_(p.graph.values.size(), nullptr) {
    for (const Parameter& parameter : p.parameters) {
      if (parameter.value == kNoValue) continue;
      is_known_[parameter.value] = true;
      parameter_of_[parameter.value] = &parameter;
    }
    for (const Node& node : p.graph.nodes) {
      const bool folds = can_fold(node);
      for (const ValueId v : node.results) is_known_[v] = folds;
      for (const ValueId v : node.operands) {
        if (v != kNoValue) ++(folds ? users_ : wanted_)[v];
      }
    }
    for (const ValueId v : p.graph.outputs) ++wanted_[v];
    for (const Tap& tap : p.taps) {
      if (tap.value != kNoValue) ++wanted_[tap.value];
    }
    find_needed();
  }

  bool is_folded(const Node& node) const { return !node.results.empty() && is_known_[node.results[0]]; }
  bool is_wanted(const Node& node) const {
    return std::any_of(node.results.begin(), node.results.end(), [&](ValueId v) { return wanted_[v] != 0; });
  }
  const Array& result(ValueId v) const { return arrays_[v]; }

  void compute() {
    for (const Node& node : p_.graph.nodes) {
      if (!is_folded(node) || needed_.count(node.results[0]) == 0) continue;
      std::vector<Array> operands;
      for (const ValueId v : node.operands) {
        const Parameter* parameter = v == kNoValue ? nullptr : parameter_of_[v];
        operands.push_back(parameter ? source_.get(*parameter) : v == kNoValue ? Array() : arrays_[v]);
      }
      const Bindings none;
      std::vector<Array> results;
      try {
        results = Evaluator{none, 0, nullptr}.run(p_.graph, node, operands);
      } catch (Error& error) {
        error.op(node.op->name)
            .module_path(p_.module_path(node.origin))
            .python(p_.file_line(node.origin), p_.source_line(node.origin));
        throw;
      }
      for (size_t r = 0; r < results.size(); ++r) arrays_[node.results[r]] = own_memory(std::move(results[r]), operands);
      for (const ValueId v : node.operands) {
        if (v != kNoValue && --users_[v] == 0 && wanted_[v] == 0) arrays_[v] = Array();
      }
    }
  }

 private:
  bool can_fold(const Node& node) const {
    if (!node.op->is_primitive || node.op->is_random || !node.regions.empty() || node.results.empty()) return false;
    size_t before = 0, after = 0;
    for (const ValueId v : node.operands) {
      if (v == kNoValue) continue;
      if (!is_known_[v]) return false;
      before += bytes_of(p_.graph.type(v));
    }
    for (const ValueId v : node.results) {
      if (!all_numbers(p_.graph.type(v).shape)) return false;
      after += bytes_of(p_.graph.type(v));
    }
    return after <= kSmall || static_cast<double>(after) <= most_growth_ * static_cast<double>(before);
  }

  void find_needed() {
    for (size_t n = p_.graph.nodes.size(); n-- > 0;) {
      const Node& node = p_.graph.nodes[static_cast<NodeId>(n)];
      if (!is_folded(node)) continue;
      const bool needed = is_wanted(node) ||
                          std::any_of(node.results.begin(), node.results.end(), [&](ValueId v) { return needed_.count(v) != 0; });
      if (!needed) continue;
      needed_.insert(node.results[0]);
      for (const ValueId v : node.operands) {
        if (v != kNoValue) needed_.insert(p_.graph.values[v].node == kNoNode ? v : first_result(v));
      }
    }
  }
  ValueId first_result(ValueId v) const { return p_.graph.nodes[p_.graph.values[v].node].results[0]; }

  const Program& p_;
  const ParameterSource& source_;
  const double most_growth_;
  PerValue<bool> is_known_;
  PerValue<int> wanted_, users_;  // uses by the run, and by nodes that are folded
  PerValue<Array> arrays_;
  PerValue<const Parameter*> parameter_of_;
  std::set<ValueId> needed_;      // the first results of nodes to compute
};

// Inputs, parameters, states: the order that a program promises.
void put_inputs_in_order(Program& p) {
  Values order;
  for (const Input& i : p.inputs) order.push_back(i.value);
  for (const Parameter& q : p.parameters) {
    if (q.value != kNoValue) order.push_back(q.value);
  }
  for (const State& s : p.states) order.push_back(s.value);
  p.graph.inputs = std::move(order);
  for (size_t i = 0; i < p.graph.inputs.size(); ++i) p.graph.values[p.graph.inputs[i]].index = static_cast<int32_t>(i);
}

}  // namespace

FoldedProgram fold_parameters(Program p, const OpTable& table, std::shared_ptr<const ParameterSource> source,
                              double most_growth) {
  Folding folding(p, *source, most_growth);
  folding.compute();

  std::set<std::string> taken;
  for (const Parameter& q : p.parameters) taken.insert(q.name);
  std::vector<Parameter> added;
  std::map<std::string, Array> values;
  size_t number = 0;
  // The results of a node are inputs from now on.
  const auto fold = [&](Builder& b, const Node& node, const Values&) -> std::optional<Values> {
    if (!folding.is_folded(node) || !folding.is_wanted(node)) return std::nullopt;
    Values results;
    for (const ValueId v : node.results) {
      const Array& value = folding.result(v);
      Parameter q;
      do q.name = "folded." + std::to_string(number++);
      while (taken.count(q.name) != 0);
      q.kind = Parameter::Kind::constant;
      q.type = {value.dtype(), Shape(value.shape().begin(), value.shape().end())};
      q.value = b.graph().add_input(q.type);
      values.emplace(q.name, value);
      results.push_back(q.value);
      added.push_back(std::move(q));
    }
    return results;
  };
  p = rewrite_outside_regions(std::move(p), table, fold);
  for (Parameter& q : added) p.parameters.push_back(std::move(q));
  put_inputs_in_order(p);
  return {without_dead_nodes(std::move(p)), std::make_shared<WithFolded>(std::move(source), std::move(values))};
}

}  // namespace pycandle
