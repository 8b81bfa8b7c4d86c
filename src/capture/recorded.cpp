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

}  // namespace pycandle::front
