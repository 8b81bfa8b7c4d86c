#include "pycandle/recorded.h"

#include "runtime/model.h"

namespace pycandle::front {

struct Recorded::State {
  Model model;
};

Recorded Recorded::load(const std::string& path, const std::string& backend) {
  LoadOptions options;
  options.backend = backend;
  Recorded recorded;
  recorded.state_ = std::make_shared<State>(State{load_model(path, options)});
  return recorded;
}

std::vector<Symbol> Recorded::symbols() const {
  std::vector<Symbol> found;
  for (const pycandle::Symbol& s : state_->model.program().symbols) {
    if (s.axis >= 0) found.push_back({s.name, s.range.min, s.range.max, s.example});  // the others are decided by data
  }
  return found;
}

Recorded::Tensors Recorded::random_inputs(uint64_t seed, const std::map<std::string, int64_t>& sizes) const {
  Bindings bound;
  for (const auto& [name, size] : sizes) bound[name] = size;
  return pycandle::random_inputs(state_->model.program(), seed, bound);
}

Recorded::Tensors Recorded::run(const Tensors& inputs) const { return state_->model.forward(inputs); }

Recorded::Tensors Recorded::states() const {
  const Program& p = state_->model.program();
  Tensors values;
  for (const pycandle::State& s : p.states) {
    values.emplace(s.name, state_->model.parameters()->get_state(s, p.graph.type(s.value)));
  }
  return values;
}

Recorded::Tensors Recorded::run(const Tensors& inputs, Tensors& states) const {
  const Program& p = state_->model.program();
  std::vector<Array> ordered;
  for (const pycandle::State& s : p.states) {
    const auto found = states.find(s.name);
    if (found == states.end()) throw Error(ErrorCode::bad_input, "the state " + s.name + " is missing");
    ordered.push_back(found->second);
  }
  RunRequest request;
  request.inputs = ordered_inputs(p, inputs);
  request.states = &ordered;
  const std::vector<Array> values = state_->model.executable().run(request);
  for (size_t i = 0; i < p.states.size(); ++i) states.insert_or_assign(p.states[i].name, ordered[i]);
  Tensors outputs;
  for (size_t i = 0; i < values.size(); ++i) outputs.emplace(p.outputs[i].name, values[i]);
  return outputs;
}

}  // namespace pycandle::front
