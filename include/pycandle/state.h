// A buffer that forward() changes: it reads as a tensor, and what is assigned to it is there in the next call.
//
//   struct Counter : nn::Module<Counter> {
//     State count;
//     explicit Counter(const Weights& w) : Module(w), count(w.state("count")) {}
//     Tensor forward(const Tensor& x) const {
//       count = count + 1;
//       return x * count;
//     }
//   };
//
// A compiled model keeps its states between runs; Compiled::reset() takes it back to what the weights say. States belong
// to the weights: two models share those of one Weights, and have their own when each opens its weights. Runs that share
// states take turns; Compiled::session() has states of its own.
#pragma once

#include "pycandle/tensor.h"

namespace pycandle::front {

class PYCANDLE_API State : public Tensor {
 public:
  State() = default;
  State(const State&) = default;  // the same state
  ~State() = default;
  // The value from here on: forward() is const, as it changes no module. Dtype and shape stay.
  const State& operator=(const Tensor& next) const;  // NOLINT(misc-unconventional-assign-operator)
  const State& operator=(const State& next) const;   // NOLINT(misc-unconventional-assign-operator)

 private:
  friend class Weights;
  explicit State(Tensor leaf) : Tensor(std::move(leaf)) {}
};

}  // namespace pycandle::front
