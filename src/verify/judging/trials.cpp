#include "verify/judging/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace pycandle {
namespace {

using Kind = ReferenceMode::Kind;

bool narrows_floats(const Program& p) {
  return std::any_of(p.graph.nodes.begin(), p.graph.nodes.end(), [&](const Node& node) {
    if (node.op->name != "cast") return false;
    const DType from = p.graph.type(node.operands[0]).dtype, to = p.graph.type(node.results[0]).dtype;
    return is_floating(from) && is_floating(to) && unit_roundoff(to) > unit_roundoff(from);
  });
}

// The program's own rounding is in the floor, so a cast to a smaller float that the model does not have would pass. The
// golden gives it away: it is far closer to the exact value than such a rounding lets anything be.
void look_at_casts(const Program& p, const Evidence& e, Judgement& j) {
  constexpr double kFarCloser = 32;
  if (!j.passed || !narrows_floats(p)) return;
  const double by_rounding = root_mean_square(as_reals(e.rounded)) == 0
                                 ? 0
                                 : compare(cast(e.rounded, DType::f64), cast(e.f64, DType::f64)).rms;
  if (by_rounding <= kFarCloser * std::max(j.error_rms, unit_roundoff(e.golden.dtype()) * j.scale)) return;
  j.passed = false;
  j.rounds_more = true;
  j.why = fmt::format(
      "the program rounds to a smaller float and is {:.2g} (rms) from its exact value; PyTorch's value is {:.2g} from it",
      by_rounding, j.error_rms);
}

}  // namespace

RunRequest Trials::request(std::vector<Array> inputs) const {
  RunRequest request;
  request.symbols = sizes_;
  request.inputs = std::move(inputs);
  return request;
}

void Trials::add_runs(const Program& decomposed, const RunRequest& request, const std::vector<ReferenceMode>& modes,
                      Evidence& evidence) const {
  std::vector<ReferenceRun> runs = run_reference_modes(decomposed, *parameters_, modes, request);
  for (size_t i = 0; i < modes.size(); ++i) {
    Array& output = runs[i].outputs.at(0);
    if (modes[i].kind == Kind::rounded)
      evidence.rounded = std::move(output);
    else if (modes[i].kind == Kind::f64)
      evidence.f64 = std::move(output);
    else
      evidence.jittered.push_back(std::move(output));
  }
}

Array Trials::rounded(const Program& p, const std::vector<Array>& inputs) const {
  return reference_backend().compile(p, table_, parameters_)->run(request(inputs)).at(0);
}

Judgement Trials::judge(const Program& p, const std::vector<Array>& inputs, Evidence& evidence) const {
  const Program decomposed = decompose_to_primitives(p, table_);
  const RunRequest run = request(inputs);
  if (!is_inexact(evidence.golden.dtype())) {
    add_runs(decomposed, run, {{Kind::rounded, 0}}, evidence);
    return judge_exactly(evidence.golden, evidence.rounded);
  }
  add_runs(decomposed, run, {{Kind::rounded, 0}, {Kind::f64, 0}, {Kind::jittered, 1}, {Kind::jittered, 2}}, evidence);
  Judgement j = judge_decomposed(decomposed, run, evidence);
  if (is_floating(evidence.golden.dtype())) look_at_casts(p, evidence, j);
  return j;
}

Judgement Trials::judge_decomposed(const Program& decomposed, const RunRequest& run, Evidence& evidence) const {
  const Judgement first = judge_program(evidence);
  if (first.passed || first.error_rms > kNearMiss * first.floor_rms) return first;
  std::vector<ReferenceMode> more{{Kind::rounded, 0}};
  for (uint64_t seed = 3; seed <= 10; ++seed) more.push_back({Kind::jittered, seed, /*long_sums=*/seed > 8});
  add_runs(decomposed, run, more, evidence);
  return judge_program(evidence);
}

Judgement Trials::judge_backend_again(const Program& p, const std::vector<Array>& inputs, const Judgement& first,
                                      Evidence& evidence) const {
  if (first.error_rms > kNearMiss * first.floor_rms) return first;
  std::vector<ReferenceMode> modes{{Kind::rounded, 0}, {Kind::f64, 0}};
  for (uint64_t seed = 1; seed <= 10; ++seed) modes.push_back({Kind::jittered, seed, /*long_sums=*/seed > 8});
  add_runs(decompose_to_primitives(p, table_), request(inputs), modes, evidence);
  return judge_backend(evidence);
}

Judgement Trials::explains(const Program& p, const std::vector<Array>& inputs, const Array& value) const {
  Evidence evidence;
  evidence.golden = value;
  if (!is_inexact(value.dtype())) return judge(p, inputs, evidence);
  const Program decomposed = decompose_to_primitives(p, table_);
  const RunRequest run = request(inputs);
  add_runs(decomposed, run, {{Kind::rounded, 0}, {Kind::f64, 0}}, evidence);
  constexpr double kHopeless = 1024;  // jitter moves the floor by far less
  const Judgement quick = judge_program(evidence);
  const bool is_finite_miss = quick.floor_rms > 0;
  if (!quick.passed && (!is_finite_miss || quick.error_rms > kHopeless * quick.floor_rms)) return quick;
  add_runs(decomposed, run, {{Kind::rounded, 0}, {Kind::jittered, 1}, {Kind::jittered, 2}}, evidence);
  return judge_decomposed(decomposed, run, evidence);
}

}  // namespace pycandle
