#include "verify/judging/layer_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "verify/judging/run_choices.h"
#include "verify/judging/run_floors.h"
#include "verify/judging/vacuity.h"

namespace pycandle {

bool Taint::reaches(ValueId v) {
  for (; next_node_ <= g_.values[v].node; ++next_node_) {
    const Node& node = g_.nodes[next_node_];
    if (std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId o) { return o != kNoValue && is_tainted_[o]; })) {
      for (ValueId r : node.results) add(r);
    }
  }
  return is_tainted_[v];
}

LayerJudge::LayerJudge(const Program& p, const Backend& backend, const Goldens& goldens, const Trials& trials, KeptFloors& floors,
                       const Options& options)
    : p_(p),
      backend_(backend),
      goldens_(goldens),
      trials_(trials),
      slices_(trials, floors,
              {without_dumps(options.pipeline), options.tolerance, options.whose, &backend == &reference_backend()}),
      options_{without_dumps(options.pipeline), options.tolerance, options.whose, options.recorded},
      whole_(run_whole(p, trials.table(), backend, trials.parameters(), goldens, options.pipeline)),
      is_from_inputs_(options.recorded ? values_from_inputs(p, *options.recorded) : values_from_inputs(p)),
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
  evidence.ours = backend_.compile(slice.program, trials_.table(), trials_.parameters(), options_.pipeline)
                      ->run(trials_.request(inputs))
                      .at(0);
  slices_.judge(key, slice, inputs, evidence, result);
}

void LayerJudge::look_at_evidence(ValueId v, const Slice& slice, const std::vector<Array>& inputs, const Evidence& evidence,
                                  LayerResult& result) const {
  const bool is_judged = is_from_inputs_[v] && is_inexact(evidence.golden.dtype()) && result.verdict != Verdict::wrong_here;
  if (!is_judged) {
    result.vacuous.clear();
    return;
  }
  if (const auto reason = vacuity(slice, trials_.table(), inputs, evidence.golden)) {
    result.vacuous = *reason;
  } else if (result.verdict == Verdict::exact && result.floor_rms == 0 && !options_.tolerance) {
    // Equal to the reference bit for bit, so nothing was asked of rounding yet.
    const Program decomposed = decompose_to_primitives(slice.program, trials_.table());
    if (!may_grow_rounding(decomposed)) return;
    const Floor floor = trials_.quick_floor(decomposed, inputs);
    const DType coarsest = coarsest_float(decomposed, evidence.golden.dtype());
    if (const auto drowned = drowns_in_rounding(floor, coarsest)) result.vacuous = *drowned;
  }
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

LayerResult LayerJudge::of_whole_run(const WholeRun::Result& r, const Slice& slice) const {
  LayerResult result = place(slice, r.golden);
  result.tap = {TapId::Kind::whole_run, r.name};
  result.path.clear();
  result.metrics = r.metrics;
  result.picture = picture_of_difference(r.ours, r.golden);
  return result;
}

std::vector<LayerResult> LayerJudge::judge_as_a_whole() const {
  if (whole_.failure) throw Error(*whole_.failure);
  if (options_.tolerance) return {};
  std::vector<LayerResult> found = choices_as_a_whole();
  for (LayerResult& wrong : wrong_as_a_whole()) found.push_back(std::move(wrong));
  return found;
}

std::vector<LayerResult> LayerJudge::choices_as_a_whole() const {
  std::vector<LayerResult> found;
  if (std::none_of(whole_.results.begin(), whole_.results.end(), chose_otherwise)) return found;
  const bool is_reference = &backend_ == &reference_backend();
  const WholeRun other = is_reference ? WholeRun{}
                                      : run_whole(p_, trials_.table(), reference_backend(), trials_.parameters(), goldens_,
                                                  options_.pipeline);
  const WholeRun& reference = is_reference ? whole_ : other;
  Slicer slicer(p_, drawn_values(p_, goldens_));
  for (size_t i = 0; i < whole_.results.size() && i < reference.results.size(); ++i) {
    const WholeRun::Result& r = whole_.results[i];
    if (p_.graph.values[r.value].node < 0 || !chose_otherwise(r)) continue;
    if (options_.pipeline.weights != WeightFormat::f32) continue;  // rounded weights choose as they like
    const RunChoice choice = look_at_run_choice(p_, goldens_, trials_, whole_, r, reference.results[i].ours, options_.whose);
    LayerResult result = of_whole_run(r, slicer.slice(r.value));
    result.verdict = choice.is_wrong ? Verdict::wrong_here : Verdict::reference_unstable;
    if (choice.is_wrong) result.judged = Judged::backend;
    result.why = choice.why;
    found.push_back(std::move(result));
  }
  return found;
}

// Where rounding decides between whole values (argmax, a step, a threshold), PyTorch's run and ours may rightly part.
bool LayerJudge::decides_by_rounding(ValueId v) const {
  const Program whole = decompose_to_primitives(Slicer(p_, drawn_values(p_, goldens_)).slice(v).program, trials_.table());
  const Graph& g = whole.graph;
  PerValue<bool> is_rounded(g.values.size());
  for (const Node& node : g.nodes) {
    const bool sees_rounding = std::any_of(node.operands.begin(), node.operands.end(),
                                           [&](ValueId o) { return o != kNoValue && is_rounded[o]; });
    for (ValueId r : node.results) {
      const bool is_float = is_inexact(g.type(r).dtype);
      if (sees_rounding && (!is_float || node.op->is_step || !node.regions.empty())) return true;
      is_rounded[r] = is_float && (sees_rounding || node.op->rounding != Rounding::exact || node.op->name == "cast");
    }
  }
  return false;
}

std::vector<LayerResult> LayerJudge::wrong_as_a_whole() const {
  std::map<ValueId, const WholeRun::Result*> unclear;
  Values wanted;
  for (const WholeRun::Result& r : whole_.results) {
    const bool is_judged = is_inexact(r.golden.dtype()) && p_.graph.values[r.value].node >= 0 && goldens_.has(r.value) &&
                           r.ours.shape() == r.golden.shape();  // else a choice on the way: each is judged by itself
    if (!is_judged || is_one_rounding(r.golden, r.ours)) continue;
    if (unclear.emplace(r.value, &r).second) wanted.push_back(r.value);
  }
  std::vector<LayerResult> wrong;
  if (wanted.empty()) return wrong;
  std::map<ValueId, Evidence> evidence;
  const auto run = [&](const Values& values, const std::vector<ReferenceMode>& modes) {
    run_in_modes(p_, trials_.table(), *trials_.parameters(), goldens_, values, modes, [&](ValueId v, Evidence&& e) {
      Evidence& all = evidence[v];
      std::move(e.jittered.begin(), e.jittered.end(), std::back_inserter(all.jittered));
      e.jittered = std::move(all.jittered);
      if (all.f64.size() > 0) e.f64 = all.f64;
      e.ours = unclear.at(v)->ours;
      e.whose = options_.whose;
      all = std::move(e);
    });
  };
  const auto judge_both = [&](ValueId v, const Evidence& e) {
    const Judgement program = judge_program(e);
    if (!program.passed) return std::pair(Judged::program, program);
    if (const WeightFormat format = options_.pipeline.weights; format != WeightFormat::f32) {
      const Slice slice = Slicer(p_, drawn_values(p_, goldens_)).slice(v);
      const std::vector<Array> inputs = known_arrays(p_, goldens_, *trials_.parameters(), slice.inputs);
      if (const auto narrowed = trials_.judge_narrowed(slice.program, inputs, format, e.ours))
        return std::pair(Judged::backend, narrowed->judgement);
    }
    if (&backend_ == &reference_backend()) return std::pair(Judged::program, program);
    return std::pair(Judged::backend, judge_backend(e));
  };
  const auto missed = [&] {
    Values misses;
    for (const auto& [v, e] : evidence) {
      if (!judge_both(v, e).second.passed) misses.push_back(v);
    }
    evidence.clear();
    return misses;
  };
  // Two runs first, the rounded one for the exact one: most outputs are as close as that.
  run(wanted, {{ReferenceMode::Kind::rounded, 0}, {ReferenceMode::Kind::jittered, 1}});
  for (auto& [v, e] : evidence) e.f64 = cast(e.rounded, is_complex(e.rounded.dtype()) ? DType::c128 : DType::f64);
  Values misses = missed();
  if (misses.empty()) return wrong;
  run(misses, first_modes());
  std::map<ValueId, Evidence> first = evidence;
  misses = missed();
  if (misses.empty()) return wrong;
  evidence = std::move(first);
  run(misses, more_modes());
  for (ValueId v : misses) {
    const auto [question, judgement] = judge_both(v, evidence.at(v));
    if (judgement.passed || (question == Judged::program && decides_by_rounding(v))) continue;
    const WholeRun::Result& r = *unclear.at(v);
    LayerResult result = of_whole_run(r, Slicer(p_, drawn_values(p_, goldens_)).slice(v));
    record_judgement(judgement, question, result);
    if (question == Judged::program) result.why += "; each layer alone is within rounding, so the layers err together";
    wrong.push_back(std::move(result));
  }
  return wrong;
}

}  // namespace pycandle
