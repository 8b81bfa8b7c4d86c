// A model of the front end as a program, for the library's own tools: nothing is there to run it.
#pragma once

#include <memory>

#include "capture/store.h"
#include "ir/graph.h"
#include "pycandle/model.h"
#include "pycandle/weights.h"

namespace pycandle::front {

Program captured_program(const Callable&, const Signature&);  // in program form
Signature signature_of(const Program&);

struct WeightsAccess {
  static Weights of(std::shared_ptr<const ParameterStore> store) {
    Weights w;
    w.store_ = std::move(store);
    return w;
  }
};

}  // namespace pycandle::front
