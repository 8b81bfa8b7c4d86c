// Small programs, run from known values by the reference in all the modes that a judgement needs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "backends/reference/reference.h"
#include "verify/judging/judge.h"

namespace pycandle {

// The whole program is dumped once; a folder for every slice would bury it.
inline PipelineOptions without_dumps(PipelineOptions pipeline) {
  pipeline.dump_dir.clear();
  return pipeline;
}

// What a judgement begins with: the rounded run, the exact one and two that are jittered.
std::vector<ReferenceMode> first_modes();
// Two more for a program of a half dtype, as its kernels err.
std::vector<ReferenceMode> kernel_modes(const Program&, DType half);
// More of them for a near miss; in two of them, long sums err as when terms are added one after another.
std::vector<ReferenceMode> more_modes();
// As kernels for a half dtype err where their f32 is much worse: what is next to a tie shows.
std::vector<ReferenceMode> noisy_kernels(const Program&, DType half);
// The value of one mode, where evidence has it.
void add_mode(const ReferenceMode&, Array value, Evidence&);

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
  // By one jittered run beside the rounded one: enough to see whether rounding takes most of the digits.
  Floor quick_floor(const Program& decomposed, const std::vector<Array>& inputs) const;
  // Of a backend whose value missed the floor: with more runs, and with sums as they are when terms are added one after
  // another, which kernels for few rows do.
  Judgement judge_backend_again(const Program&, const std::vector<Array>& inputs, const Judgement& first, Evidence&) const;
  // Of a backend that keeps weights in fewer bytes. Nothing when the program has none that it would keep so.
  struct Narrowed {
    Judgement judgement;       // of `ours`, beside the program with the weights as the format keeps them
    double weight_rounding = 0;  // how far that program is from this one, relative to the value's size
  };
  std::optional<Narrowed> judge_narrowed(const Program&, const std::vector<Array>& inputs, WeightFormat, const Array& ours) const;
  // The same for a value that need not be the golden; a far miss costs two runs instead of four.
  Judgement explains(const Program&, const std::vector<Array>& inputs, const Array& value) const;

 private:
  void add_runs(const Program& decomposed, const RunRequest&, const std::vector<ReferenceMode>&, Evidence&) const;
  Judgement judge_decomposed(const Program& decomposed, const RunRequest&, Evidence&) const;
  Judgement judge_with_spellings(const Program&, const RunRequest&, const Judgement& missed, Evidence&) const;
  // As kernels for f16 and bf16 compute the program, in any spelling of its ops.
  Judgement judge_half(const Program&, const Program& decomposed, const RunRequest&, const Judgement& first,
                       const Evidence&) const;
  Judgement judge_as_its_kernels(const Program&, const Program& decomposed, const RunRequest&, const Judgement& first,
                                 const Evidence&) const;

  const OpTable& table_;
  std::shared_ptr<const ParameterSource> parameters_;
  Bindings sizes_;
};

}  // namespace pycandle
