// A model of the front end as a program, for the library's own tools: nothing is there to run it.
#pragma once

#include <memory>

#include "capture/store.h"
#include "ir/graph.h"
#include "params/parameters.h"
#include "passes/pipeline.h"
#include "pycandle/cache.h"
#include "pycandle/model.h"
#include "pycandle/weights.h"

namespace pycandle::front {

Program captured_program(const Callable&, const Signature&);  // in program form
Signature signature_of(const Program&);
// A step of a decoder, in program form, and the weights that it was captured with.
struct CapturedStep {
  Program program;
  std::shared_ptr<const ParameterSource> parameters;
};
PipelineOptions pipeline_of(const CompileOptions&);
CapturedStep captured_step(const Callable&, const DecodeSignature&, const CompileOptions&);

struct WeightsAccess {
  static Weights of(std::shared_ptr<const ParameterStore> store) {
    Weights w;
    w.store_ = std::move(store);
    return w;
  }
};

}  // namespace pycandle::front
