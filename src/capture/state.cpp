#include "pycandle/state.h"

#include <fmt/format.h>

#include "base/error.h"
#include "capture/capture.h"
#include "runtime/states.h"

namespace pycandle::front {

// While a program is captured, the value that the state has at this point of it; eagerly, the array.
Tensor::Tensor(const State& state) {
  const Tensor& leaf = state;
  if (Capture* capture = Capture::current(); capture && leaf.defined()) {
    *this = capture->tensor(capture->value_of(leaf));
  } else if (leaf.defined()) {
    *this = Tensor(leaf.array());
  }
}

Tensor& Tensor::operator=(const State& state) { return *this = Tensor(state); }

const State& State::operator=(const State& next) const { return *this = Tensor(next); }

const State& State::operator=(const Tensor& next) const {
  const Leaf* leaf = Capture::leaf_of(*this);
  if (!leaf)
    throw Error(ErrorCode::bad_input, "a value is assigned to a state that does not exist").module_path(current_module());
  if (next.type_text() != leaf->type.text())
    throw Error(ErrorCode::bad_input, fmt::format("state {} changes its type", leaf->name))
        .module_path(current_module())
        .expected(leaf->type.text())
        .found(next.type_text());
  if (Capture* capture = Capture::current()) {
    capture->update(*this, next);
    return *this;
  }
  if (EagerRun* run = eager_run()) run->noted->emplace(leaf->name, Capture::shared_leaf(*this));
  leaf->assign(copy_of(next.array()));  // which may be an input, and the caller's memory
  return *this;
}

}  // namespace pycandle::front
