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
#include "import/manifest.h"
#include "verify/judge.h"
#include "verify/verify.h"

namespace pycandle::front {

struct Checker::State {
  std::optional<Safetensors> trace;
  std::map<std::string, std::string> key_of;  // tap → name in the trace file
  std::vector<std::string> inputs, outputs;
  std::string name;
  double tolerance = 0;                       // 0: the dtype's own
  double of_inputs = 0;                       // nothing is more exact than what it was computed from
  bool only_collects = false;
  mutable std::mutex mutex;
  mutable std::vector<CheckResult> results;
};

namespace {

// "h.0.mlp" → "h.0.mlp@0/output"
std::string tap_id(std::string_view layer) {
  std::string id(layer);
  if (id.find('@') == std::string::npos) id += "@0";
  if (id.find('/', id.find('@')) == std::string::npos) id += "/output";
  return id;
}

// What rounding may come to through a whole model, relative to the values.
double default_tolerance(DType dtype) {
  switch (dtype) {
    case DType::f64:
    case DType::c128: return 1e-8;
    case DType::f16: return 2e-2;
    case DType::bf16: return 1e-1;
    default: return 1e-3;
  }
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
  if (recording.trace_file.empty())
    throw Error(ErrorCode::bad_input, fmt::format("the recording {} has no golden values", name))
        .found(manifest.string())
        .hint("record the model again");
  state.trace = Safetensors::open(std::filesystem::path(folder) / recording.trace_file);
  for (const Tap& tap : recording.program.taps) state.key_of.emplace(tap.id, tap.key);
  for (const Input& input : recording.program.inputs) state.inputs.push_back(input.name);
  for (const Output& output : recording.program.outputs) state.outputs.push_back(output.name);
  for (const std::string& input : state.inputs) {
    if (!state.trace->contains("input:" + input)) continue;
    const DType dtype = state.trace->get("input:" + input).dtype();
    if (is_inexact(dtype)) state.of_inputs = std::max(state.of_inputs, default_tolerance(dtype));
  }
  return checker;
}

bool Checker::has(std::string_view layer) const {
  if (!state_) return false;
  const auto key = state_->key_of.find(tap_id(layer));
  return key != state_->key_of.end() && state_->trace->contains(key->second);
}

Array Checker::golden(std::string_view layer) const {
  if (!has(layer))
    throw Error(ErrorCode::bad_input, fmt::format("there is no golden value of {}", tap_id(layer)))
        .expected(fmt::format("one of {} taps", state_ ? state_->key_of.size() : 0))
        .module_path(std::string(layer));
  return state_->trace->get(state_->key_of.at(tap_id(layer)));
}

CheckResult how_close(const Array& expected, const Array& found, double tolerance) {
  CheckResult result;
  if (found.dtype() != expected.dtype() || found.shape() != expected.shape()) {
    result.cosine = 0;
    result.mse = result.max_diff = result.error = std::numeric_limits<double>::infinity();
    result.why = fmt::format("is {} where PyTorch has {}", type_text(found), type_text(expected));
    return result;
  }
  const Metrics metrics = compare(found, expected);
  const double scale = root_mean_square(as_reals(expected));
  result.mse = metrics.mse;
  result.max_diff = metrics.max_abs;
  result.cosine = metrics.cosine;
  result.error = scale > 0 ? metrics.rms / scale : metrics.rms;
  result.tolerance = !is_inexact(found.dtype()) ? 0 : tolerance > 0 ? tolerance : default_tolerance(found.dtype());
  result.passed = metrics.nan_mismatches == 0 && result.error <= result.tolerance;
  if (!result.passed)
    result.why = fmt::format("is off by {:.2g} of its size ({:.2g} at most), {:.2g} at the worst element{}", result.error,
                             result.tolerance, result.max_diff,
                             metrics.nan_mismatches > 0 ? ", and has NaN or infinities elsewhere" : "");
  return result;
}

CheckResult Checker::verify(std::string_view layer, const Array& ours) const {
  Array expected = golden(layer);
  if (ours.dtype() == DType::c128 && expected.dtype() == DType::f64) {  // the file's format has no c128
    Sizes shape = expected.shape();
    shape.pop_back();
    expected = Array(DType::c128, shape, expected.data(), std::make_shared<Array>(expected));
  }
  const double own = std::max(default_tolerance(ours.dtype()), state_->of_inputs);
  CheckResult result = how_close(expected, ours, state_->tolerance > 0 ? state_->tolerance : own);
  result.layer = tap_id(layer);
  if (!result.passed) result.why = result.layer + " " + result.why;
  const std::lock_guard lock(state_->mutex);
  state_->results.push_back(result);
  return result;
}

std::map<std::string, Array> Checker::inputs() const {
  std::map<std::string, Array> all;
  for (const std::string& name : state_->inputs) all.emplace(name, state_->trace->get("input:" + name));
  return all;
}

std::map<std::string, Array> Checker::outputs() const {
  std::map<std::string, Array> all;
  for (const std::string& name : state_->outputs) {
    if (state_->trace->contains("output:" + name)) all.emplace(name, state_->trace->get("output:" + name));
  }
  return all;
}

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

void CheckerAccess::look(const Checker& checker, const std::string& layer, const Array& value) {
  const CheckResult result = checker.verify(layer, value);
  if (result.passed || checker.state_->only_collects) return;
  throw Error(ErrorCode::verdict, result.why)
      .expected(fmt::format("what PyTorch computed for {} of {}", result.layer, checker.state_->name))
      .found(fmt::format("mse {:.3g}, max_diff {:.3g}, cosine {:.6f}", result.mse, result.max_diff, result.cosine))
      .module_path(result.layer.substr(0, result.layer.find('@')));
}

void check(const Checker& checker, std::string_view layer, const Tensor& x) {
  if (!checker) return;
  Capture* capture = Capture::current();
  if (!capture) return CheckerAccess::look(checker, std::string(layer), x.array());
  const std::string id = tap_id(layer);
  const ValueId value = capture->value_of(x);
  std::vector<Tap>& taps = capture->program.taps;
  if (std::none_of(taps.begin(), taps.end(), [&](const Tap& tap) { return tap.id == id; }))
    taps.push_back({id, value, id, false});
  capture->watches.emplace(id, Capture::Watch{checker, std::string(layer)});
}

}  // namespace pycandle::front
