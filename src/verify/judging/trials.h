// Small programs, run from known values by the reference in all the modes that a judgement needs.
#pragma once

#include <memory>
#include <vector>

#include "backends/reference/reference.h"
#include "verify/judging/judge.h"

namespace pycandle {

// The whole program is dumped once; a folder for every slice would bury it.
inline PipelineOptions without_dumps(PipelineOptions pipeline) {
  pipeline.dump_dir.clear();
  return pipeline;
}

class Trials {
 public:
  Trials(const OpTable& table, std::shared_ptr<const ParameterSource> parameters, Bindings sizes)
      : table_(table), parameters_(std::move(parameters)), sizes_(std::move(sizes)) {}

  const OpTable& table() const { return table_; }
  const std::shared_ptr<const ParameterSource>& parameters() const { return parameters_; }
  const Bindings& sizes() const { return sizes_; }
  RunRequest request(std::vector<Array> inputs) const;

  // The program's one output by the reference: rounded once a primitive.
  Array rounded(const Program&, const std::vector<Array>& inputs) const;
  // Fills in the reference's runs and judges evidence.golden against them: is it what the program computes, but for
  // rounding? A near miss is judged once more with more runs. Integers and bools are equal, or wrong.
  Judgement judge(const Program&, const std::vector<Array>& inputs, Evidence&) const;
  // Of a backend whose value missed the floor: with more runs, and with sums as they are when terms are added one after
  // another, which kernels for few rows do.
  Judgement judge_backend_again(const Program&, const std::vector<Array>& inputs, const Judgement& first, Evidence&) const;
  // The same for a value that need not be the golden; a far miss costs two runs instead of four.
  Judgement explains(const Program&, const std::vector<Array>& inputs, const Array& value) const;

 private:
  void add_runs(const Program& decomposed, const RunRequest&, const std::vector<ReferenceMode>&, Evidence&) const;
  Judgement judge_decomposed(const Program& decomposed, const RunRequest&, Evidence&) const;

  const OpTable& table_;
  std::shared_ptr<const ParameterSource> parameters_;
  Bindings sizes_;
};

}  // namespace pycandle
