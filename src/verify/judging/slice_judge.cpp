#include "verify/judging/slice_judge.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <utility>

#include "verify/judging/decisions.h"
#include "verify/judging/selections.h"
#include "verify/judging/vacuity.h"

namespace pycandle {
namespace {

void judge_by_tolerance(const Evidence& e, const Tolerance& t, LayerResult& result) {
  const std::vector<double> golden = as_reals(e.golden), ours = as_reals(e.ours);
  for (size_t i = 0; i < golden.size(); ++i) {
    if (same_number(golden[i], ours[i]) || std::abs(ours[i] - golden[i]) <= t.atol + t.rtol * std::abs(golden[i])) continue;
    const auto index = static_cast<int64_t>(is_complex(e.golden.dtype()) ? i / 2 : i);
    result.judged = Judged::tolerance;
    result.verdict = Verdict::wrong_here;
    result.why = fmt::format("{:.6g} where {} has {:.6g}, at {}: more than {:.2g} + {:.2g} times that apart", ours[i], e.whose,
                             golden[i], to_string(coordinates_of(index, e.golden.shape())), t.atol, t.rtol);
    return;
  }
  if (result.verdict != Verdict::exact) result.verdict = Verdict::within_tolerance;
}

void look_at_stability(const Judgement& j, LayerResult& result) {
  const std::optional<std::string> unstable = instability(j, *dtype_from_name(result.dtype));
  if (!unstable) return;
  result.verdict = Verdict::reference_unstable;
  result.why = *unstable;
}

}  // namespace

void record_judgement(const Judgement& j, Judged question, LayerResult& result) {
  result.error_rms = j.error_rms;
  result.error_max = j.error_max;
  result.floor_rms = j.floor_rms;
  result.floor_max = j.floor_max;
  if (j.passed) return;
  result.judged = question;
  result.verdict = Verdict::wrong_here;
  result.why = j.why;
}

SliceJudge::SliceJudge(const Trials& trials, KeptFloors& floors, Options options)
    : trials_(trials), floors_(floors), options_(std::move(options)) {}

void SliceJudge::judge(const std::string& key, const Slice& slice, const std::vector<Array>& inputs, Evidence& evidence,
                       LayerResult& result) const {
  evidence.whose = options_.whose;
  result.metrics = compare_with_sizes(evidence.ours, evidence.golden);
  result.picture = picture_of_difference(evidence.ours, evidence.golden);
  const bool is_equal = evidence.ours.same_bytes(evidence.golden);
  result.verdict = is_equal ? Verdict::exact : Verdict::within_rounding;
  if (evidence.ours.shape() != evidence.golden.shape()) {
    judge_sizes(slice, inputs, evidence, result);
  } else if (options_.tolerance) {
    judge_by_tolerance(evidence, *options_.tolerance, result);
  } else if (!is_inexact(evidence.golden.dtype())) {
    judge_integers(slice, inputs, evidence, result);
  } else if (!is_equal || !options_.is_reference) {
    // The reference's own rounded run is one of the floor's witnesses: equal to it is within any floor.
    judge_by_floor(key, slice, inputs, evidence, result);
  }
}

void SliceJudge::judge_by_floor(const std::string& key, const Slice& slice, const std::vector<Array>& inputs, Evidence& evidence,
                                LayerResult& result) const {
  std::optional<KeptFloor> kept = floors_.find(key, evidence.golden);
  if (!kept) {
    const auto start = std::chrono::steady_clock::now();
    const Judgement program = trials_.judge(slice.program, inputs, evidence);
    record_judgement(program, Judged::program, result);
    if (!program.passed) return;
    kept = KeptFloor{program, backend_floor(evidence)};
    floors_.add(key, *kept, evidence.golden, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  record_judgement(kept->program, Judged::program, result);
  if (judge_as_asked(slice, inputs, evidence, result)) return;
  Judgement backend = judge_backend(evidence, kept->backend);
  if (!backend.passed) backend = trials_.judge_backend_again(slice.program, inputs, backend, evidence);
  if (!backend.passed) return record_judgement(backend, Judged::backend, result);
  if (result.verdict != Verdict::exact) look_at_stability(kept->program, result);
  if (!drowns_in_rounding(kept->backend, evidence.golden.dtype())) return;
  const Program decomposed = decompose_to_primitives(slice.program, trials_.table());
  const DType coarsest = coarsest_float(decomposed, evidence.golden.dtype());
  if (const auto drowned = drowns_in_rounding(kept->backend, coarsest)) result.vacuous = *drowned;
}

// A layer whose weights are kept in fewer bytes is held to those weights, not to the recorded ones.
bool SliceJudge::judge_as_asked(const Slice& slice, const std::vector<Array>& inputs, const Evidence& evidence,
                                LayerResult& result) const {
  const WeightFormat format = options_.pipeline.weights;
  if (format == WeightFormat::f32) return false;
  const auto narrowed = trials_.judge_narrowed(slice.program, inputs, format, evidence.ours);
  if (!narrowed) return false;
  result.weight_rounding = narrowed->weight_rounding;
  record_judgement(narrowed->judgement, Judged::backend, result);
  return true;
}

// Data decided how many there are, here otherwise than in PyTorch.
void SliceJudge::judge_sizes(const Slice& slice, const std::vector<Array>& inputs, const Evidence& evidence,
                             LayerResult& result) const {
  const std::optional<Decisions> decisions = look_at_selections(slice, trials_, inputs, evidence.golden, evidence.ours);
  if (decisions) result.decisions = decisions->text(options_.whose);
  if (decisions && decisions->within_rounding) {
    result.why = result.decisions;
    return;
  }
  result.verdict = Verdict::wrong_here;
  result.judged = Judged::program;
  result.why = fmt::format("has the sizes {} where {}'s value has {}", to_string(evidence.ours.shape()), options_.whose,
                           to_string(evidence.golden.shape()));
}

void SliceJudge::judge_integers(const Slice& slice, const std::vector<Array>& inputs, const Evidence& evidence,
                                LayerResult& result) const {
  const Judgement equal = judge_exactly(evidence.golden, evidence.ours, evidence.whose);
  std::optional<Decisions> decisions = look_at_decisions(slice, trials_, inputs, evidence.golden, evidence.ours);
  if (!decisions) decisions = look_at_selections(slice, trials_, inputs, evidence.golden, evidence.ours);
  if (decisions) result.decisions = decisions->text(options_.whose);
  if (!equal.passed && decisions && decisions->within_rounding) {
    result.why = result.decisions;
    return;
  }
  if (equal.passed) return;
  const bool program_agrees = trials_.rounded(slice.program, inputs).same_bytes(evidence.golden);
  record_judgement(equal, program_agrees ? Judged::backend : Judged::program, result);
}

}  // namespace pycandle
