#include "verify/judging/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "passes/passes.h"
#include "verify/judging/half_precision.h"
#include "verify/judging/spellings.h"
#include "verify/judging/systematic.h"

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

// How far the program's own rounding takes it from its exact value (RMS). Where it overflows, PyTorch's value does too: judged
// before.
double rounded_away(const Evidence& e) {
  std::vector<double> off = as_reals(e.rounded);
  if (root_mean_square(off) == 0) return 0;
  const std::vector<double> exact = as_reals(e.f64);
  for (size_t i = 0; i < off.size(); ++i) off[i] -= exact[i];
  return root_mean_square(off);
}

// The program's own rounding is in the floor, so a cast to a smaller float that the model does not have would pass. The
// golden gives it away: it is far closer to the exact value than such a rounding lets anything be.
void look_at_casts(const Program& p, const Evidence& e, Judgement& j) {
  constexpr double kFarCloser = 32;
  if (!j.passed || !narrows_floats(p)) return;
  const double by_rounding = rounded_away(e);
  if (by_rounding <= kFarCloser * std::max(j.error_rms, unit_roundoff(e.golden.dtype()) * j.scale)) return;
  j.passed = false;
  j.rounds_more = true;
  j.why = fmt::format(
      "the program rounds to a smaller float and is {:.2g} (rms) from its exact value; PyTorch's value is {:.2g} from it",
      by_rounding, j.error_rms);
}

// Convolutions may err by far more than their terms explain, but not by what other weights would do.
void look_at_weights(const Program& decomposed, const RunRequest& run, const Evidence& e, const Judgement& first, Judgement& j) {
  const std::optional<double> error = error_of_weights(decomposed, run.inputs, e);
  if (!error || *error <= kRmsFactor * first.floor_rms) return;
  j.passed = false;
  j.error_rms = *error;
  j.floor_rms = first.floor_rms;
  j.why = fmt::format(
      "{} is off as other weights would make it: by {:.2g} (rms) from the program's exact value, {} times the rounding floor "
      "of {:.2g}",
      e.whose, *error, in_three_digits(*error / first.floor_rms), first.floor_rms);
}

}  // namespace

std::vector<ReferenceMode> first_modes() {
  return {{Kind::rounded, 0}, {Kind::f64, 0}, {Kind::jittered, 1}, {Kind::jittered, 2}};
}

std::vector<ReferenceMode> kernel_modes(const Program& p, DType half) {
  std::vector<ReferenceMode> modes;
  for (uint64_t seed : {1, 2}) {
    modes.push_back({Kind::jittered, seed, /*long_sums=*/false, half});
    modes.back().rounds_products = seed == 2 && rounds_products(p);
  }
  return modes;
}

std::vector<ReferenceMode> more_modes() {
  std::vector<ReferenceMode> modes{{Kind::rounded, 0}};
  for (uint64_t seed = 3; seed <= 10; ++seed) modes.push_back({Kind::jittered, seed, /*long_sums=*/seed > 8});
  return modes;
}

std::vector<ReferenceMode> noisy_kernels(const Program& p, DType half) {
  const double noise = unit_roundoff(half) / unit_roundoff(DType::f32) / 1024;
  std::vector<ReferenceMode> modes{{Kind::rounded, 0}};
  for (uint64_t seed = 3; seed <= 10; ++seed)
    modes.push_back({Kind::jittered, seed, /*long_sums=*/false, half, noise, seed % 2 == 0 && rounds_products(p)});
  return modes;
}

void add_mode(const ReferenceMode& mode, Array value, Evidence& evidence) {
  if (mode.kind == Kind::rounded)
    evidence.rounded = std::move(value);
  else if (mode.kind == Kind::f64)
    evidence.f64 = std::move(value);
  else if (mode.kernels_for)
    evidence.as_kernels.push_back(std::move(value));
  else
    evidence.jittered.push_back(std::move(value));
}

RunRequest Trials::request(std::vector<Array> inputs) const {
  RunRequest request;
  request.symbols = sizes_;
  request.inputs = std::move(inputs);
  return request;
}

void Trials::add_runs(const Program& decomposed, const RunRequest& request, const std::vector<ReferenceMode>& modes,
                      Evidence& evidence) const {
  std::vector<ReferenceRun> runs = run_reference_modes(decomposed, *parameters_, modes, request);
  for (size_t i = 0; i < modes.size(); ++i) add_mode(modes[i], std::move(runs[i].outputs.at(0)), evidence);
}

Array Trials::rounded(const Program& p, const std::vector<Array>& inputs) const {
  return reference_backend().compile(p, table_, parameters_)->run(request(inputs)).at(0);
}

Floor Trials::quick_floor(const Program& decomposed, const std::vector<Array>& inputs) const {
  Evidence evidence;
  add_runs(decomposed, request(inputs), {{Kind::rounded, 0}, {Kind::jittered, 1}}, evidence);
  Floor floor{as_reals(evidence.rounded), {as_reals(evidence.jittered[0])}, 0};
  floor.scale = root_mean_square(floor.exact);
  for (size_t i = 0; i < floor.exact.size(); ++i) {
    double& off = floor.witnesses[0][i];
    off = std::isfinite(off) && std::isfinite(floor.exact[i]) ? std::abs(off - floor.exact[i]) : 0;
  }
  return floor;
}

Judgement Trials::judge(const Program& p, const std::vector<Array>& inputs, Evidence& evidence) const {
  const Program decomposed = decompose_to_primitives(p, table_);
  const RunRequest run = request(inputs);
  if (!is_inexact(evidence.golden.dtype())) {
    add_runs(decomposed, run, {{Kind::rounded, 0}}, evidence);
    return judge_exactly(evidence.golden, evidence.rounded);
  }
  std::vector<ReferenceMode> modes = first_modes();
  if (is_half(evidence.golden.dtype())) {
    for (const ReferenceMode& mode : kernel_modes(p, evidence.golden.dtype())) modes.push_back(mode);
  }
  add_runs(decomposed, run, modes, evidence);
  Judgement j = judge_decomposed(decomposed, run, evidence);
  if (!j.passed && is_half(evidence.golden.dtype())) j = judge_with_spellings(p, run, j, evidence);
  if (j.passed && is_half(evidence.golden.dtype())) j = judge_half(p, decomposed, run, j, evidence);
  if (is_floating(evidence.golden.dtype())) look_at_casts(p, evidence, j);
  return j;
}

Judgement Trials::judge_decomposed(const Program& decomposed, const RunRequest& run, Evidence& evidence) const {
  const Judgement first = judge_program(evidence);
  if (first.passed || first.error_rms > kNearMiss * first.floor_rms) return first;
  add_runs(decomposed, run, more_modes(), evidence);
  Judgement again = judge_program(evidence);
  if (again.passed) look_at_weights(decomposed, run, evidence, first, again);
  return again;
}

// Where a kernel rounds on the way to f16 or bf16, the floor shows it.
Judgement Trials::judge_with_spellings(const Program& p, const RunRequest& run, const Judgement& missed,
                                       Evidence& evidence) const {
  constexpr double kHopeless = 1024;  // terms that cancel to nearly nothing were seen 46 floors off
  if (missed.error_rms > kHopeless * missed.floor_rms) return missed;
  const std::optional<std::vector<Program>> others = other_spellings(p, table_, evidence.golden.dtype());
  if (!others || others->empty()) return missed;
  for (const Program& other : *others) {
    Evidence of_other;
    add_runs(decompose_to_primitives(other, table_), run, {{Kind::rounded, 0}, {Kind::jittered, 1}}, of_other);
    // Roundings that PyTorch does not make say nothing of what it may err by.
    if (compare(of_other.rounded, evidence.golden).rms >= compare(evidence.rounded, evidence.golden).rms) continue;
    evidence.jittered.push_back(std::move(of_other.rounded));
    evidence.jittered.push_back(std::move(of_other.jittered[0]));
  }
  return judge_program(evidence);
}

Judgement Trials::judge_half(const Program& p, const Program& decomposed, const RunRequest& run, const Judgement& first,
                             const Evidence& evidence) const {
  if (!has_known_kernels(p)) return first;
  const Judgement missed = judge_as_its_kernels(p, decomposed, run, first, evidence);
  if (missed.passed) return first;
  const std::optional<std::vector<Program>> others = other_spellings(p, table_, evidence.golden.dtype());
  if (!others) return first;
  for (const Program& other : *others) {
    const Program parts = decompose_to_primitives(other, table_);
    std::vector<ReferenceMode> modes{{Kind::rounded, 0}, {Kind::f64, 0}};
    for (const ReferenceMode& mode : kernel_modes(p, evidence.golden.dtype())) modes.push_back(mode);
    Evidence of_other;
    of_other.golden = evidence.golden;
    add_runs(parts, run, modes, of_other);
    if (judge_as_its_kernels(p, parts, run, first, of_other).passed) return first;
  }
  return missed;
}

Judgement Trials::judge_as_its_kernels(const Program& p, const Program& decomposed, const RunRequest& run, const Judgement& first,
                                       const Evidence& evidence) const {
  const Judgement sharp = judge_as_kernels(evidence, first, AllKernels::alike);
  if (sharp.passed) return sharp;
  Evidence again = evidence;
  add_runs(decomposed, run, noisy_kernels(p, evidence.golden.dtype()), again);
  return judge_as_kernels(again, first, AllKernels::any_place);
}

Judgement Trials::judge_backend_again(const Program& p, const std::vector<Array>& inputs, const Judgement& first,
                                      Evidence& evidence) const {
  if (first.error_rms > kNearMiss * first.floor_rms) return first;
  std::vector<ReferenceMode> modes = first_modes();
  for (const ReferenceMode& mode : more_modes()) {
    if (mode.kind == Kind::jittered) modes.push_back(mode);
  }
  add_runs(decompose_to_primitives(p, table_), request(inputs), modes, evidence);
  return judge_backend(evidence);
}

std::optional<Trials::Narrowed> Trials::judge_narrowed(const Program& p, const std::vector<Array>& inputs, WeightFormat format,
                                                       const Array& ours) const {
  const Program asked = narrow_weights(p, table_, format);
  if (asked.graph.nodes.size() == p.graph.nodes.size()) return std::nullopt;
  const RunRequest run = request(inputs);
  // What kernels make of activations may move the value as well as any rounding may.
  const Program by_kernels = narrow_weights(p, table_, format, Activations::as_in_kernels);
  Evidence evidence, kernels, exact;
  add_runs(decompose_to_primitives(asked, table_), run,
           {{Kind::rounded, 0}, {Kind::f64, 0}, {Kind::jittered, 1}, {Kind::jittered, 2}}, evidence);
  add_runs(decompose_to_primitives(by_kernels, table_), run, {{Kind::rounded, 0}, {Kind::f64, 0}}, kernels);
  add_runs(decompose_to_primitives(p, table_), run, {{Kind::rounded, 0}, {Kind::f64, 0}}, exact);
  evidence.jittered.push_back(std::move(kernels.f64));
  evidence.golden = evidence.rounded;
  evidence.whose = fmt::format("the program with {} weights", name_of(format));
  evidence.ours = ours;
  const double size = root_mean_square(as_reals(exact.f64));
  const double moved = compare(cast(evidence.f64, DType::f64), cast(exact.f64, DType::f64)).rms;
  return Narrowed{judge_backend(evidence), size > 0 ? moved / size : moved};
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
