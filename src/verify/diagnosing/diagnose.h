// A layer that is wrong: which op, which pass, and why. docs/diagnosis.md has the method.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "verify/diagnosing/captured.h"
#include "verify/diagnosing/causes.h"
#include "verify/diagnosing/isolate.h"
#include "verify/judging/goldens.h"
#include "verify/judging/layer_result.h"
#include "verify/judging/slices.h"
#include "verify/judging/trials.h"

namespace pycandle {

// Is the golden of this value what the program computes, when these passes are left out? Nothing when the value is gone.
using WithoutPasses = std::function<std::optional<bool>(const std::string& key, const std::set<std::string>& disabled)>;

// What the recorded program does for the golden of this name, and from which values, when a captured one is judged: it
// begins with values that the captured one has too.
struct RecordedPart {
  Program program;
  std::vector<Array> inputs;
  std::vector<std::string> names;  // of the inputs
};
using RecordedSlice = std::function<std::optional<RecordedPart>(const std::string& key)>;
// Its program with the inputs in the order of these, by their bytes: a structure counts them by their place.
std::optional<Program> ordered_as(const std::vector<Array>& inputs, RecordedPart);

class Diagnostician {
 public:
  Diagnostician(const Program& p, const Backend& backend, const Goldens& goldens, const PipelineOptions& pipeline,
                OnWrongLayer on_wrong, const Trials& trials, WithoutPasses without_passes, RecordedSlice recorded_slice,
                const CapturedProgram& captured)
      : p_(p),
        backend_(backend),
        goldens_(goldens),
        pipeline_(without_dumps(pipeline)),
        on_wrong_(std::move(on_wrong)),
        trials_(trials),
        without_passes_(std::move(without_passes)),
        recorded_slice_(std::move(recorded_slice)),
        captured_(captured) {}

  // Fills in result.diagnosis. `inputs` are those of the slice.
  void diagnose(ValueId, const Slice&, const std::vector<Array>& inputs, const Evidence&, LayerResult& result) const;
  // The same for a value that has another type than PyTorch's: a cause may explain that too.
  void explain_type(const Slice&, const std::vector<Array>& inputs, const Array& golden, Diagnosis&) const;
  // The same for source code that does not run there.
  void compare_with_recorded(ValueId, const Slice&, const std::vector<Array>& inputs, LayerResult& result) const;

 private:
  void look_at_recorded_ops(ValueId, const Slice&, const std::vector<Array>& inputs, Diagnosis&) const;
  std::string name_of_input(ValueId) const;
  std::optional<Program> recorded_program(ValueId, const std::vector<Array>& inputs) const;
  bool look_at_unchanged_states(LayerResult&) const;
  void look_at_exchanged_modules(const TapId& tap, Diagnosis&) const;
  void show(const LayerResult&, const Program&, const std::vector<Array>& inputs, const Array& expected, const Array& got) const;
  void describe_place(const std::vector<NodeId>& nodes, Diagnosis&) const;
  std::vector<std::pair<AbsentLayer, Array>> absent() const;
  bool has_foreign_op(const Slice&) const;
  std::vector<Suspect::InputValue> input_values() const;
  std::optional<std::pair<std::string, Array>> updated_state(ValueId before) const;
  std::vector<Suspect::RecordedValue> recorded_values(const std::string& key) const;
  std::vector<std::pair<std::string, Array>> beside(ValueId target, ValueId end, const Type&) const;
  std::vector<Suspect::RightValue> right_values(ValueId target, NodeId) const;
  std::vector<NodeId> suspects_of(ValueId, const Slice&, const std::vector<Array>& inputs, const Array& golden) const;
  std::string guilty_program_pass(ValueId) const;
  std::string guilty_backend_pass(const Isolated&) const;

  const Program& p_;
  const Backend& backend_;
  const Goldens& goldens_;
  const PipelineOptions pipeline_;
  const OnWrongLayer on_wrong_;
  const Trials& trials_;
  const WithoutPasses without_passes_;
  const RecordedSlice recorded_slice_;
  const CapturedProgram& captured_;  // without one: empty
};

}  // namespace pycandle
