#include "pycandle/recorded.h"

#include "runtime/model.h"

namespace pycandle::front {

struct Recorded::State {
  Model model;
};

Recorded Recorded::load(const std::string& path, const LoadOptions& options) {
  pycandle::LoadOptions load;
  load.backend = options.backend;
  load.pipeline.threads = options.threads;
  load.pipeline.pack_weights = options.memory == Memory::fast;
  load.check_weights = options.check_weights;
  Recorded recorded;
  recorded.state_ = std::make_shared<State>(State{load_model(path, load)});
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

Recorded::Tensors Recorded::run(const Tensors& inputs, Tensors& states) const { return state_->model.forward(inputs, states); }

Recorded::Tensors Recorded::states() const { return state_->model.states(); }
void Recorded::set_states(const Tensors& states) const { state_->model.set_states(states); }
void Recorded::reset() const { state_->model.reset(); }
void Recorded::save_states(const std::string& path) const { state_->model.save_states(path); }
void Recorded::load_states(const std::string& path) const { state_->model.load_states(path); }

Recorded Recorded::session() const {
  Recorded recorded;
  recorded.state_ = std::make_shared<State>(State{state_->model.session()});
  return recorded;
}

}  // namespace pycandle::front
