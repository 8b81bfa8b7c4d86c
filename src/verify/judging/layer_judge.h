// The judge of one call's layers: each from golden inputs, and all of them in one whole run. docs/verification.md has the
// method.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "verify/judging/goldens.h"
#include "verify/judging/slice_judge.h"
#include "verify/judging/whole_run.h"

namespace pycandle {

// Values that depend on one that is wrong.
class Taint {
 public:
  explicit Taint(const Graph& g) : g_(g), is_tainted_(g.values.size()) {}
  void add(ValueId v) { is_tainted_[v] = true; }
  // Ask in the order of computation, after every wrong value before it was added.
  bool reaches(ValueId v);

 private:
  const Graph& g_;
  PerValue<bool> is_tainted_;
  NodeId next_node_ = 0;
};

class LayerJudge {
 public:
  struct Options {
    PipelineOptions pipeline;
    std::optional<Tolerance> tolerance;  // decides instead of the rounding floor
    std::string whose = "PyTorch";       // the goldens
    const Program* recorded = nullptr;   // beside source code that is judged
  };
  LayerJudge(const Program&, const Backend&, const Goldens&, const Trials&, KeptFloors&, const Options&);

  // Where the slice's value stands, before anything is said of it.
  LayerResult place(const Slice&, const Array& golden) const;
  // From golden inputs: fills in evidence.ours and what the result says of it. evidence.golden is there.
  void judge(const std::string& key, const Slice&, const std::vector<Array>& inputs, Evidence&, LayerResult&) const;
  // Of a layer that is right: does that prove anything? Fills in `vacuous`.
  void look_at_evidence(ValueId, const Slice&, const std::vector<Array>& inputs, const Evidence&, LayerResult&) const;
  // Once per value, in the order of computation: is it off in the whole run, and because of a layer before it?
  void look_at_whole_run(ValueId, const Array& golden, LayerResult&);

  // Right layer by layer is not yet right as a whole: fusion across layers, the memory that they share, and errors that are
  // small in each layer and of one direction show only there. An output, or what a state became, that differs by more than one
  // rounding is judged by what rounding does to the program from its inputs to that value. So are integers that differ, and
  // values whose sizes data decided otherwise. What is wrong, and what rounding decides.
  std::vector<LayerResult> judge_as_a_whole() const;
  const WholeRun& whole_run() const { return whole_; }

 private:
  LayerResult of_whole_run(const WholeRun::Result&, const Slice&) const;
  std::vector<LayerResult> choices_as_a_whole() const;
  std::vector<LayerResult> wrong_as_a_whole() const;
  bool decides_by_rounding(ValueId) const;

  const Program& p_;
  const Backend& backend_;
  const Goldens& goldens_;
  const Trials& trials_;
  const SliceJudge slices_;
  const Options options_;
  const WholeRun whole_;
  const PerValue<bool> is_from_inputs_;
  Taint taint_;
};

}  // namespace pycandle
