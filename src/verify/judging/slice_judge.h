// One value from golden inputs: is the program right, and is the backend? Whoever ran the backend hands its value over.
// docs/judging.md has the method.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "verify/judging/floors.h"
#include "verify/judging/layer_result.h"
#include "verify/judging/slices.h"
#include "verify/judging/trials.h"

namespace pycandle {

struct Tolerance {
  double atol = 0, rtol = 0;  // |ours - golden| <= atol + rtol * |golden|
};

class SliceJudge {
 public:
  struct Options {
    PipelineOptions pipeline;
    std::optional<Tolerance> tolerance;  // decides instead of the rounding floor
    std::string whose = "PyTorch";       // the goldens
    bool is_reference = false;           // what ran is the reference, whose own run is a witness of every floor
  };
  SliceJudge(const Trials&, KeptFloors&, Options);

  // evidence.golden and evidence.ours are there; the rest is filled in, and what the result says of it.
  void judge(const std::string& key, const Slice&, const std::vector<Array>& inputs, Evidence&, LayerResult&) const;

 private:
  void judge_by_floor(const std::string& key, const Slice&, const std::vector<Array>& inputs, Evidence&, LayerResult&) const;
  bool judge_as_asked(const Slice&, const std::vector<Array>& inputs, const Evidence&, LayerResult&) const;
  void judge_sizes(const Slice&, const std::vector<Array>& inputs, const Evidence&, LayerResult&) const;
  void judge_integers(const Slice&, const std::vector<Array>& inputs, const Evidence&, LayerResult&) const;

  const Trials& trials_;
  KeptFloors& floors_;
  const Options options_;
};

// What a judgement says of a layer.
void record_judgement(const Judgement&, Judged question, LayerResult&);

}  // namespace pycandle
