// A recorded model as it is, without source code: what the emitted one is held against.
//
//   Recorded recorded = Recorded::load("pycandle_trace/gpt2_manifest.json");
//   auto inputs = recorded.random_inputs(1, {{"s0", 4}});
//   auto outputs = recorded.run(inputs);
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pycandle/model.h"

namespace pycandle {
namespace front {

class PYCANDLE_API Recorded {
 public:
  using Tensors = Compiled::Tensors;
  // A manifest, the folder of one, or a bundle.
  static Recorded load(const std::string& path, const std::string& backend = "reference");

  std::vector<Symbol> symbols() const;  // the sizes that the inputs leave open
  // Floats standard normal, integers within the recorded range; at the recorded sizes, or those in `sizes`.
  Tensors random_inputs(uint64_t seed, const std::map<std::string, int64_t>& sizes = {}) const;
  Tensors run(const Tensors& inputs) const;                   // from the recorded states
  Tensors run(const Tensors& inputs, Tensors& states) const;  // which are changed as the model changes its buffers
  Tensors states() const;                                     // as they were recorded, by name

 private:
  struct State;
  std::shared_ptr<const State> state_;
};

}  // namespace front
}  // namespace pycandle
