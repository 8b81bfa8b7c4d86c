// The contract of a backend (docs/backend.md): claim ops, compile a program, run it.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/array.h"
#include "ir/op_def.h"
#include "params/parameters.h"
#include "passes/pipeline.h"

namespace pycandle {

// How long one step of a run took.
struct StepTime {
  std::string_view kernel;                  // "gemm"
  std::string_view op;                      // the functional or primitive it computes, the last of several
  std::string layer;                        // its module path
  double start = 0, seconds = 0;            // since the run began
  double work = 0;                          // multiply-adds or elements; 0 when unknown
  double bytes = 0;                         // read and written, each operand once
};

// What an executable holds, and what it did to get there.
struct ExecutableUse {
  struct Planned {
    std::string why;                        // no plan was there for this call
    double seconds = 0;
  };
  std::vector<Planned> planned;             // in the order of the calls
  size_t weight_bytes = 0;                  // parameters in the formats that plans read
  size_t arena_bytes = 0;                   // activations, of the largest plan
};

struct RunRequest {
  std::vector<Array> inputs;                               // in the order of Program::inputs
  std::vector<Array>* states = nullptr;  // in the order of Program::states; updated in place; null: the recorded ones, discarded
  std::function<void(size_t tap, const Array&)>
      on_tap;  // called once per tap of Program::taps that is not inside another, when its value exists
  std::function<void(const StepTime&)> on_step;  // profiles: called when all are done; backends without steps do not
  uint64_t seed = 0;  // of random ops
  bool prepare_fully = false;  // at once, what otherwise waits for a second call, which may never come
  Bindings symbols;  // sizes that the inputs do not bind by themselves: a slice of a program
  Bindings* found = nullptr;  // where to write all sizes, also those that the data decided
};

class Executable {
 public:
  virtual ~Executable() = default;
  virtual std::vector<Array> run(const RunRequest&) const = 0;  // in the order of Program::outputs; safe from several threads
  virtual ExecutableUse use() const { return {}; }
};

class Backend {
 public:
  virtual ~Backend() = default;
  virtual std::string name() const = 0;
  virtual bool claims(const Call&) const = 0;  // of functionals in the program's own graph
  // Ways to run a functional, the usual one first; empty when there is nothing to choose (PipelineOptions::overrides).
  virtual std::vector<std::string> implementations(std::string_view functional) const;
  // The program is in program form; compile runs the backend pipeline itself, with these options.
  virtual std::unique_ptr<Executable> compile(const Program&, const OpTable&, std::shared_ptr<const ParameterSource>,
                                              const PipelineOptions& = {}, std::vector<PassTiming>* = nullptr) const = 0;
};

// Checks inputs against the program's types and binds the symbols: one Error that names input, axis, expected and found.
// Sizes within their ranges, dims that are not plain symbols and Program::checks are looked at too; checks that mention
// a size bound by data (nonzero) wait until it is known.
Bindings bind_inputs(const Program&, const std::vector<Array>& inputs, Bindings known = {});
// The program's checks whose symbols are all bound, and, when given, only those that mention `symbol`.
void evaluate_checks(const Program&, const Bindings&, std::string_view symbol = {});

}  // namespace pycandle
