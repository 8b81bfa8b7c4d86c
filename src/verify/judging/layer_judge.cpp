#include "verify/judging/layer_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

#include "verify/judging/decisions.h"
#include "verify/judging/selections.h"

namespace pycandle {
namespace {

void record(const Judgement& j, Judged question, LayerResult& result) {
  result.error_rms = j.error_rms;
  result.error_max = j.error_max;
  result.floor_rms = j.floor_rms;
  result.floor_max = j.floor_max;
  if (j.passed) return;
  result.judged = question;
  result.verdict = Verdict::wrong_here;
  result.why = j.why;
}

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

bool Taint::reaches(ValueId v) {
  const auto end = static_cast<size_t>(g_.values[v].node) + 1;
  for (; next_node_ < end; ++next_node_) {
    const Node& node = g_.nodes[next_node_];
    if (std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId o) { return o != kNoValue && is_tainted_[o]; })) {
      for (ValueId r : node.results) add(r);
    }
  }
  return is_tainted_[v];
}

LayerJudge::LayerJudge(const Program& p, const Backend& backend, const Goldens& goldens, const Trials& trials, KeptFloors& floors,
                       Options options)
    : p_(p),
      backend_(backend),
      goldens_(goldens),
      trials_(trials),
      floors_(floors),
      options_{without_dumps(options.pipeline), options.tolerance, options.whose},
      whole_(run_whole(p, trials.table(), backend, trials.parameters(), goldens, options.pipeline)),
      taint_(p.graph) {}

LayerResult LayerJudge::place(const Slice& slice, const Array& golden) const {
  LayerResult result;
  result.op = slice.last_op;
  result.path = p_.module_path(slice.origin);
  result.place = p_.file_line(slice.origin);
  result.source = p_.source_line(slice.origin);
  result.dtype = std::string(name_of(golden.dtype()));
  result.shape = golden.shape();
  return result;
}

void LayerJudge::judge(const std::string& key, const Slice& slice, const std::vector<Array>& inputs, Evidence& evidence,
                       LayerResult& result) const {
  evidence.whose = options_.whose;
  evidence.ours = backend_.compile(slice.program, trials_.table(), trials_.parameters(), options_.pipeline)
                      ->run(trials_.request(inputs))
                      .at(0);
  result.metrics = compare_with_sizes(evidence.ours, evidence.golden);
  const bool is_equal = evidence.ours.same_bytes(evidence.golden);
  result.verdict = is_equal ? Verdict::exact : Verdict::within_rounding;
  if (evidence.ours.shape() != evidence.golden.shape()) {
    judge_sizes(slice, inputs, evidence, result);
  } else if (options_.tolerance) {
    judge_by_tolerance(evidence, *options_.tolerance, result);
  } else if (!is_inexact(evidence.golden.dtype())) {
    judge_integers(slice, inputs, evidence, result);
  } else if (!is_equal || &backend_ != &reference_backend()) {
    // The reference's own rounded run is one of the floor's witnesses: equal to it is within any floor.
    judge_by_floor(key, slice, inputs, evidence, result);
  }
}

void LayerJudge::judge_by_floor(const std::string& key, const Slice& slice, const std::vector<Array>& inputs, Evidence& evidence,
                                LayerResult& result) const {
  std::optional<KeptFloor> kept = floors_.find(key, evidence.golden);
  if (!kept) {
    const auto start = std::chrono::steady_clock::now();
    const Judgement program = trials_.judge(slice.program, inputs, evidence);
    record(program, Judged::program, result);
    if (!program.passed) return;
    kept = KeptFloor{program, backend_floor(evidence)};
    floors_.add(key, *kept, evidence.golden, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  record(kept->program, Judged::program, result);
  Judgement backend = judge_backend(evidence, kept->backend);
  if (!backend.passed) backend = trials_.judge_backend_again(slice.program, inputs, backend, evidence);
  if (!backend.passed) return record(backend, Judged::backend, result);
  if (result.verdict != Verdict::exact) look_at_stability(kept->program, result);
}

// Data decided how many there are, here otherwise than in PyTorch.
void LayerJudge::judge_sizes(const Slice& slice, const std::vector<Array>& inputs, const Evidence& evidence,
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

void LayerJudge::judge_integers(const Slice& slice, const std::vector<Array>& inputs, const Evidence& evidence,
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
  record(equal, program_agrees ? Judged::backend : Judged::program, result);
}

void LayerJudge::look_at_whole_run(ValueId v, const Array& golden, LayerResult& result) {
  const bool is_downstream = taint_.reaches(v);
  if (result.verdict == Verdict::wrong_here) taint_.add(v);
  const auto found = whole_.taps.find(v);
  if (found == whole_.taps.end()) return;
  const Metrics& m = *(result.cumulative = found->second);
  if (result.verdict == Verdict::wrong_here || m.differing == 0) return;
  const double least = unit_roundoff(golden.dtype()) * root_mean_square(as_reals(golden));
  const bool is_one_rounding = m.rms <= kRmsFactor * std::max(result.floor_rms, least) &&
                               m.max_abs <= kMaxFactor * std::max(result.floor_max, least);
  if (is_one_rounding) return;
  if (is_downstream) {
    result.verdict = Verdict::wrong_upstream;
    result.why = fmt::format("right from {}'s values; {:.2g} off in the whole run, after a layer that is wrong", options_.whose,
                             m.max_abs);
  } else if (result.verdict == Verdict::exact || result.verdict == Verdict::within_rounding) {
    result.verdict = Verdict::accumulated_rounding;
  }
}

std::vector<LayerResult> LayerJudge::wrong_as_a_whole() const {
  std::vector<LayerResult> wrong;
  if (whole_.failure) throw Error(*whole_.failure);
  if (&backend_ == &reference_backend() || options_.tolerance) return wrong;
  const WholeRun reference = run_whole(p_, trials_.table(), reference_backend(), trials_.parameters(), goldens_,
                                       options_.pipeline);
  const PerValue<bool> is_drawn = drawn_values(p_, goldens_);
  for (size_t i = 0; i < whole_.results.size() && i < reference.results.size(); ++i) {
    const auto& [name, value, array, golden, ours] = whole_.results[i];
    if (!is_inexact(golden.dtype()) || p_.graph.values[value].node < 0) continue;
    if (array.shape() != golden.shape()) continue;  // a choice on the way: each is judged by itself
    const Metrics& theirs = reference.results[i].metrics;
    const double least = unit_roundoff(golden.dtype()) * root_mean_square(as_reals(golden));
    const bool is_as_close = ours.rms <= kRmsFactor * std::max(theirs.rms, least) &&
                             ours.max_abs <= kMaxFactor * std::max(theirs.max_abs, least);
    if (is_as_close && ours.nan_mismatches <= theirs.nan_mismatches) continue;
    const Slice slice = Slicer(p_, is_drawn).slice(value);
    Evidence evidence;
    evidence.golden = golden;
    evidence.ours = array;
    evidence.whose = options_.whose;
    if (!trials_.judge(slice.program, known_arrays(p_, goldens_, *trials_.parameters(), slice.inputs), evidence).passed)
      continue;  // chaotic, or wrong in a layer
    const Judgement judgement = judge_backend(evidence);
    if (judgement.passed) continue;
    LayerResult result = place(slice, golden);
    result.tap = {TapId::Kind::whole_run, name};
    result.path.clear();
    result.metrics = ours;
    record(judgement, Judged::backend, result);
    wrong.push_back(std::move(result));
  }
  return wrong;
}

}  // namespace pycandle
