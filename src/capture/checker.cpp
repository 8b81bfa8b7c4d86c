#include "pycandle/checker.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <mutex>
#include <optional>

#include "base/file.h"
#include "base/safetensors.h"
#include "capture/capture.h"
#include "capture/shared_modules.h"
#include "import/manifest.h"
#include "verify/floor_file.h"
#include "verify/judging/judge.h"
#include "verify/judging/recorded_rounding.h"

namespace pycandle::front {

struct Checker::State {
  std::vector<Safetensors> traces;            // of the calls
  std::map<TapId, std::string> key_of;        // name in the trace file
  std::vector<std::string> inputs, outputs, states;
  std::string name;
  std::filesystem::path manifest;
  SharedModules modules;
  double tolerance = 0;                       // 0: the dtype's own
  double of_inputs = 0;                       // of a guess: nothing is more exact than what it was computed from
  std::vector<RunFloors> floors;              // of the calls; empty: there is no such file
  bool only_collects = false;
  mutable std::mutex mutex;
  mutable std::vector<CheckResult> results;
  mutable std::optional<RecordedRounding> rounding;  // once it was asked for
  mutable int wrong = 0;                             // that rounding does not explain

  const RunFloor* floor(const std::string& key, size_t call) const {
    if (call >= floors.size()) return nullptr;
    const auto found = floors[call].find(key);
    return found == floors[call].end() ? nullptr : &found->second;
  }

  // Rounding alone may give this value; nothing where it may not, or where the recording cannot be run (it has gaps, or
  // its weights are elsewhere): the check itself must not fail for that. The mutex is locked.
  std::optional<RecordedRounding::Explanation> explained_by_rounding(const std::string& key, size_t call,
                                                                     const Array& ours) const {
    try {
      if (!rounding) rounding.emplace(manifest);
      return rounding->explains(key, call, ours);
    } catch (const Error&) {
      return std::nullopt;
    }
  }
};

namespace {

// What rounding may come to through a whole model, relative to the values: a guess, for where no floor is at hand.
double guessed_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::c128: return 1e-8;
    case DType::f16: return 2e-2;
    case DType::bf16: return 1e-1;
    default: return 1e-3;
  }
}

// The file's format has no c128: pairs of f64.
Array stored_as(DType dtype, Array stored) {
  if (dtype != DType::c128 || stored.dtype() != DType::f64 || stored.shape().empty()) return stored;
  const Sizes shape(stored.shape().begin(), stored.shape().end() - 1);
  return Array(DType::c128, shape, stored.data(), std::make_shared<Array>(stored));
}

std::string type_text(const Array& a) { return fmt::format("{}{}", name_of(a.dtype()), to_string(a.shape())); }

}  // namespace

Checker Checker::load(const std::string& name, const std::string& folder) {
  const std::filesystem::path manifest = std::filesystem::path(folder) / (name + "_manifest.json");
  const Recording recording = read_manifest(read_text(manifest), "manifest " + manifest.filename().string()).recording;
  Checker checker;
  checker.state_ = std::make_shared<State>();
  State& state = *checker.state_;
  state.name = name;
  state.manifest = manifest;
  if (recording.trace_file.empty())
    throw Error(ErrorCode::bad_input, fmt::format("the recording {} has no golden values", name))
        .found(manifest.string())
        .hint("record the model again");
  for (const std::string& file : {recording.trace_file, recording.second_trace_file}) {
    if (!file.empty()) state.traces.push_back(Safetensors::open(std::filesystem::path(folder) / file));
  }
  for (const Tap& tap : recording.program.taps) state.key_of.emplace(tap.id, tap.key);
  state.modules = SharedModules(recording.program);
  Recording beside = recording;
  beside.folder = folder;
  state.floors = read_floor_file(manifest, beside);
  for (const Input& input : recording.program.inputs) state.inputs.push_back(input.name);
  for (const Output& output : recording.program.outputs) state.outputs.push_back(output.name);
  for (const pycandle::State& s : recording.program.states) state.states.push_back(s.name);
  for (const std::string& input : state.inputs) {
    if (!state.traces[0].contains("input:" + input)) continue;
    const DType dtype = state.traces[0].get("input:" + input).dtype();
    if (is_inexact(dtype)) state.of_inputs = std::max(state.of_inputs, guessed_tolerance(dtype));
  }
  return checker;
}

bool Checker::has(std::string_view layer) const {
  if (!state_) return false;
  const auto key = state_->key_of.find(TapId::parse(layer));
  return key != state_->key_of.end() && state_->traces[0].contains(key->second);
}

Array Checker::golden(std::string_view layer) const {
  if (!has(layer))
    throw Error(ErrorCode::bad_input, fmt::format("there is no golden value of {}", TapId::parse(layer).text()))
        .expected(fmt::format("one of {} taps", state_ ? state_->key_of.size() : 0))
        .module_path(std::string(layer));
  return state_->traces[0].get(state_->key_of.at(TapId::parse(layer)));
}

namespace {

// The distances alone; says so when the types differ, and then there are none.
std::optional<Metrics> measured(const Array& expected, const Array& found, CheckResult& result) {
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape()) {
    result.cosine = 0;
    result.mse = result.max_diff = result.error = std::numeric_limits<double>::infinity();
    result.why = fmt::format("is {} where PyTorch has {}", type_text(found), type_text(expected));
    return std::nullopt;
  }
  const Metrics metrics = compare(found, expected);
  const double scale = root_mean_square(as_reals(expected));
  result.mse = metrics.mse;
  result.max_diff = metrics.max_abs;
  result.cosine = metrics.cosine;
  result.error = scale > 0 ? metrics.rms / scale : metrics.rms;
  return metrics;
}

std::string distance_text(const CheckResult& result, const Metrics& metrics, const std::string& allowed) {
  return fmt::format("is off by {:.2g} of its size ({}), {:.2g} at the worst element{}", result.error, allowed, result.max_diff,
                     metrics.nan_mismatches > 0 ? ", and has NaN or infinities elsewhere" : "");
}

CheckResult within(const Array& expected, const Array& found, double tolerance, bool is_guess) {
  CheckResult result;
  const std::optional<Metrics> metrics = measured(expected, found, result);
  if (!metrics) return result;
  result.guessed = is_guess && is_inexact(found.dtype());
  result.tolerance = is_inexact(found.dtype()) ? tolerance : 0;
  result.passed = metrics->nan_mismatches == 0 && result.error <= result.tolerance;
  if (!result.passed)
    result.why = distance_text(result, *metrics,
                               fmt::format("{:.2g} at most{}", result.tolerance, result.guessed ? ", which is a guess" : ""));
  return result;
}

CheckResult by_floor(const Array& expected, const Array& found, const RunFloor& floor) {
  CheckResult result;
  const std::optional<Metrics> metrics = measured(expected, found, result);
  if (!metrics) return result;
  const Judgement judgement = judge_whole_run(expected, found, floor);
  const double scale = root_mean_square(as_reals(expected));
  result.tolerance = kRmsFactor * floor.rms / (scale > 0 ? scale : 1);
  result.passed = judgement.passed;
  const std::string distance = distance_text(result, *metrics, fmt::format("rounding explains {:.2g}", result.tolerance));
  if (!result.passed) result.why = distance;
  const std::optional<std::string> unstable = instability(judgement, found.dtype());
  if (result.passed && unstable && result.error > 0) {
    result.unstable = true;
    result.why = distance + ", and unstable: " + *unstable;
  }
  return result;
}

}  // namespace

CheckResult how_close(const Array& expected, const Array& found, double tolerance) {
  return within(expected, found, tolerance > 0 ? tolerance : guessed_tolerance(found.dtype()), tolerance <= 0);
}

// The floors decide where they are kept. What misses them, or a guess, is judged by runs of the recorded program itself: an
// orthogonal matrix has a log-determinant that is rounding alone.
CheckResult Checker::compared(const std::string& name, const std::string& key, size_t call, const Array& ours) const {
  if (call >= calls() || !state_->traces[call].contains(key))
    throw Error(ErrorCode::bad_input, fmt::format("there is no golden value {} of call {}", key, call))
        .found(fmt::format("{} calls were recorded", calls()));
  const Array expected = stored_as(ours.dtype(), state_->traces[call].get(key));
  const RunFloor* floor = state_->floor(key, call);
  CheckResult result = state_->tolerance > 0 ? within(expected, ours, state_->tolerance, false)
                       : floor && is_inexact(ours.dtype())
                           ? by_floor(expected, ours, *floor)
                           : within(expected, ours, std::max(guessed_tolerance(ours.dtype()), state_->of_inputs), true);
  result.layer = name;
  if (!result.why.empty()) result.why = name + " " + result.why;
  if (result.passed) return result;
  constexpr int kMostWrong = 4;  // the rest of a model that is wrong is not worth its time
  const std::lock_guard lock(state_->mutex);
  if (state_->tolerance > 0 || state_->wrong >= kMostWrong) return result;
  if (const auto why = state_->explained_by_rounding(key, call, ours)) {
    result.passed = true;
    result.guessed = false;
    result.unstable = !why->unstable.empty();
    result.why = result.unstable ? result.why + ", and unstable: " + why->unstable : "";
  } else {
    ++state_->wrong;
  }
  return result;
}

CheckResult Checker::verify(std::string_view layer, const Array& ours) const {
  golden(layer);  // says that there is none
  const TapId id = TapId::parse(layer);
  CheckResult result = compared(id.text(), state_->key_of.at(id), 0, ours);
  const std::lock_guard lock(state_->mutex);
  state_->results.push_back(result);
  return result;
}

CheckResult Checker::verify_output(std::string_view name, const Array& ours, size_t call) const {
  return compared(std::string(name), fmt::format("output:{}", name), call, ours);
}

CheckResult Checker::verify_state(std::string_view name, const Array& ours, size_t call) const {
  return compared(fmt::format("state {}", name), fmt::format("updated:{}", name), call, ours);
}

size_t Checker::calls() const { return state_ ? state_->traces.size() : 0; }

std::map<std::string, Array> Checker::recorded(const std::string& kind, const std::vector<std::string>& names,
                                               size_t call) const {
  std::map<std::string, Array> all;
  for (const std::string& name : names) {
    if (call < calls() && state_->traces[call].contains(kind + name)) all.emplace(name, state_->traces[call].get(kind + name));
  }
  return all;
}

std::map<std::string, Array> Checker::inputs(size_t call) const { return recorded("input:", state_->inputs, call); }
std::map<std::string, Array> Checker::outputs(size_t call) const { return recorded("output:", state_->outputs, call); }
std::map<std::string, Array> Checker::states(size_t call) const { return recorded("updated:", state_->states, call); }

void Checker::set_tolerance(double relative) { state_->tolerance = relative; }
void Checker::collect(bool only) { state_->only_collects = only; }

std::vector<CheckResult> Checker::results() const {
  const std::lock_guard lock(state_->mutex);
  return state_->results;
}

void Checker::clear() {
  const std::lock_guard lock(state_->mutex);
  state_->results.clear();
}

std::string CheckerAccess::recorded_path(const Checker& checker, const std::string& path, const std::string& caller) {
  return checker ? checker.state_->modules.recorded_path(path, caller) : path;
}

void CheckerAccess::look(const Checker& checker, const std::string& layer, const Array& value) {
  const CheckResult result = checker.verify(layer, value);
  if (result.passed || checker.state_->only_collects) return;
  throw Error(ErrorCode::verdict, result.why)
      .expected(fmt::format("what PyTorch computed for {} of {}", result.layer, checker.state_->name))
      .found(fmt::format("mse {:.3g}, max_diff {:.3g}, cosine {:.6f}", result.mse, result.max_diff, result.cosine))
      .module_path(TapId::parse(layer).module);
}

void check(const Checker& checker, std::string_view layer, const Tensor& x) {
  if (!checker) return;
  Capture* capture = Capture::current();
  if (!capture) return CheckerAccess::look(checker, std::string(layer), x.array());
  const TapId id = TapId::parse(layer);
  const ValueId value = capture->value_of(x);
  std::vector<Tap>& taps = capture->program.taps;
  if (std::none_of(taps.begin(), taps.end(), [&](const Tap& tap) { return tap.id == id; }))
    taps.push_back({id, value, id.text(), false});
  capture->watches.emplace(id, Capture::Watch{checker, std::string(layer)});
}

}  // namespace pycandle::front
