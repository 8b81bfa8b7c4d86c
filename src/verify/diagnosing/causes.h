// Why a value is wrong: the mistake that, made on purpose, gives exactly that value. docs/causes.md has the method.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "verify/diagnosing/captured.h"
#include "verify/judging/slices.h"
#include "verify/judging/trials.h"

namespace pycandle {

// What is to be explained: a value that the program does not give.
struct Suspect {
  const Program& program;            // the whole one: its parameters are searched for the right weight
  const Slice& slice;                // what was run …
  const std::vector<Array>& inputs;  // … from these values …
  const Array& value;                // … and this came out; or this is what should have come out
  bool is_backend = false;           // the backend's wrong value; else PyTorch's, which the program does not give
  double floor_rms = 0, floor_max = 0;  // of rounding, without any mistake
  // Values of a type that are known beside it, with their names: one of them may have been left out, or meant.
  std::function<std::vector<std::pair<std::string, Array>>(const Type&)> beside = {};
  // The same, those computed after it too.
  std::function<std::vector<std::pair<std::string, Array>>(const Type&)> anywhere = {};
  // The inputs of the whole program: a mask may be made from one.
  struct InputValue {
    std::string name;
    Type type;
    Array value;
  };
  std::function<std::vector<InputValue>()> input_values = {};
  // What a state becomes in this run; nothing when the value is no state.
  std::function<std::optional<std::pair<std::string, Array>>(ValueId)> updated_state = {};
  // When source code is judged: what the recorded program computes on its way to this value, and the op that reads it.
  struct RecordedValue {
    std::string made_by, read_by;
    Array value;
  };
  std::function<std::vector<RecordedValue>()> recorded = {};
  std::function<std::optional<Program>()> recorded_program = {};  // that computes it there
  // Values that PyTorch computed and the program does not: a layer may have been left out.
  std::vector<std::pair<AbsentLayer, Array>> absent = {};
  bool has_foreign_op = false;       // the slice computes something that PyTorch's program does not, in that module
  // Other values that are right, and that a node of the original program is used for: what explains one must not break them.
  struct RightValue {
    Slice slice;
    std::vector<Array> inputs;
    Array value;
  };
  std::function<std::vector<RightValue>(NodeId original)> right_values = {};
};

struct Cause {
  std::string kind, sentence;        // "gelu form", "looks like the tanh GELU where the model uses the erf GELU"
  NodeId node = kNoNode;                 // of the slice's program
  std::string op = {}, path = {};    // of what is missing: no node of the slice
  std::string parameter = {};        // whose values are others than the model's
};

struct Causes {
  std::vector<Cause> found;          // more than one: several mistakes would give the value
  int tried = 0;
  // The one cause, when all that was found is of one kind and of one parameter.
  const Cause* only() const;
  std::string text() const;          // for a person: the cause, that several would do, or that none fits
};

// Gives up after so many seconds.
Causes find_causes(const Suspect&, const Trials&, double seconds = 20);

}  // namespace pycandle
