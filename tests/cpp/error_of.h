// The Error that a call throws; none is a failure of the test.
#pragma once

#include <gtest/gtest.h>

#include "base/error.h"

namespace pycandle {

template <class F> Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e;
  }
  ADD_FAILURE() << "no error";
  return Error(ErrorCode::internal, "no error");
}

}  // namespace pycandle
