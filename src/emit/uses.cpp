#include "emit/uses.h"

#include <algorithm>

namespace pycandle::emit {
namespace {

class UseCounter {
 public:
  UseCounter(const ModelTree& tree, const ModuleClass& made, const Uses::WrittenDims& written_dims, Uses& uses)
      : tree_(&tree), class_(&made), written_dims_(&written_dims), uses_(&uses) {}

  void count() {
    Values visible = class_->inputs;
    // What may be left out has no sizes then: others say them where they can.
    std::stable_partition(visible.begin(), visible.end(), [&](ValueId v) { return class_->left_out.count(v) == 0; });
    const auto define = [&](const Values& results) { visible.insert(visible.end(), results.begin(), results.end()); };
    for (const auto& [input, instead] : class_->left_out) use(instead, 0);
    for (size_t s = 0; s < class_->steps.size(); ++s) {
      const Step& step = class_->steps[s];
      uses_->visible_at.push_back(visible);
      if (step.kind == Step::Kind::node) {
        count_node(step.node, visible, s);
        define(graph().nodes[step.node].results);
      } else if (step.kind == Step::Kind::call) {
        for (const ValueId v : step.arguments) use(v, s);
        ++uses_->calls_of[step.child];
        define(step.results);
      } else {
        count_loop(step, s);
        for (const Carried& c : step.carried) define({c.final});
      }
    }
    uses_->visible_at.push_back(visible);
    for (const ValueId v : class_->outputs) use(v, class_->steps.size());
    for (const StateUpdate& update : class_->updates) use(update.next, class_->steps.size());
    uses_->stated_last = uses_->last;
  }

 private:
  const Graph& graph() const { return tree_->program->graph; }

  void use(ValueId v, size_t step) {
    if (v == kNoValue) return;
    ++uses_->count[v];
    uses_->last[v] = std::max(uses_->last[v], step);
    uses_->user[v] = step;
  }

  void use_dim(Dim d, const Values& visible, size_t step) {
    if (d.is_number()) return;
    write_dim(
        d, graph(), visible,
        [&](ValueId v, size_t) {
          use(v, step);
          uses_->must_have_name.insert(v);
          return std::string();
        },
        [&](const std::string& symbol) { return tree_->calls->binds(class_->call, symbol); });
  }

  void count_node(size_t n, const Values& visible, size_t s) {
    for (size_t i = 0; i < tree_->implicit->operand_count(n); ++i) {
      const Operand& operand = tree_->implicit->operand(n, i);
      if (const ValueId* v = std::get_if<ValueId>(&operand)) use(*v, s);
      if (const Dim* d = std::get_if<Dim>(&operand)) use_dim(*d, visible, s);
    }
    for (const Dim d : (*written_dims_)(n)) use_dim(d, visible, s);
  }

  void count_loop(const Step& step, size_t s) {
    std::set<ValueId> inside;
    for (const Carried& c : step.carried) {
      use(c.initial, s);
      inside.insert(c.next);
    }
    for (const Step& call : step.body) {
      uses_->calls_of[call.child] += 2;
      for (const ValueId v : call.arguments) {
        if (inside.count(v) == 0) {
          use(v, s);
          uses_->must_have_name.insert(v);  // written once, used in every iteration
        }
      }
      inside.insert(call.results.begin(), call.results.end());
    }
  }

  const ModelTree* tree_;
  const ModuleClass* class_;
  const Uses::WrittenDims* written_dims_;
  Uses* uses_;
};

}  // namespace

Uses::Uses(const ModelTree& tree, const ModuleClass& made, const WrittenDims& written_dims) {
  UseCounter(tree, made, written_dims, *this).count();
}

}  // namespace pycandle::emit
