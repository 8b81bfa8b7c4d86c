#include "runtime/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"

namespace pycandle {
namespace {

// Kernels whose work is counted in multiply-adds.
bool multiplies(const std::string& kernel) {
  static const std::set<std::string> names = {"gemm",      "attention", "convolution", "depthwise", "expand_depthwise",
                                              "winograd2", "winograd4"};
  return names.contains(kernel);
}

template <class Key> StepSums grouped(const Profile& p, const Key& key) {
  std::map<std::string, StepSum> sums;
  for (const ProfiledStep& s : p.steps) {
    StepSum& sum = sums[key(s)];
    sum.seconds += s.seconds;
    sum.bytes += s.bytes;
    if (multiplies(s.kernel)) sum.work += s.work;
    if (multiplies(s.kernel)) sum.multiplied += s.seconds;
    sum.steps += s.times;
  }
  StepSums groups(sums.begin(), sums.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return groups;
}

Json rows(const StepSums& groups) {
  Json list = Json::array();
  for (const auto& [name, sum] : groups) {
    list.push_back(
        {{"name", name}, {"ms", sum.seconds * 1e3}, {"steps", sum.steps}, {"gflops", sum.gflops()}, {"gbs", sum.gbs()}});
  }
  return list;
}

}  // namespace

StepSums by_kernel(const Profile& p) {
  return grouped(p, [](const ProfiledStep& s) { return s.kernel; });
}
StepSums by_op(const Profile& p) {
  return grouped(p, [](const ProfiledStep& s) { return s.op; });
}
StepSums by_layer(const Profile& p) {
  return grouped(p, [](const ProfiledStep& s) { return s.layer.empty() ? "(root)" : s.layer; });
}

static double share_of(const Profile& p, const char* kernel) {
  double sum = 0;
  for (const ProfiledStep& s : p.steps) {
    if (kernel == nullptr || s.kernel == kernel) sum += s.seconds;
  }
  return p.seconds > 0 ? sum / p.seconds : 0;
}
double Profile::accounted() const { return share_of(*this, nullptr); }
double Profile::evaluated() const { return share_of(*this, kEvaluator); }

namespace {

// One run: its steps, and what a call costs around them (finding the plan, inputs, outputs).
void time_a_run(const Executable& executable, RunRequest request, Profile& p) {
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  p.steps.clear();
  const Clock::time_point begin = Clock::now();
  Clock::time_point first_noted, last_noted = begin;  // noting them is not part of the run
  request.on_step = [&](const StepTime& s) {
    if (p.steps.empty()) first_noted = Clock::now();
    p.steps.push_back({std::string(s.kernel), std::string(s.op), s.layer, s.start, s.seconds, s.work, s.bytes, 1});
    last_noted = Clock::now();
  };
  executable.run(request);
  if (p.steps.empty()) return;
  const double after = seconds(Clock::now() - last_noted);
  p.seconds = seconds(first_noted - begin) + after;
  const ProfiledStep first = p.steps.front(), last = p.steps.back();
  p.steps.insert(p.steps.begin(), {"call", "call", "", 0, first.start, 0, 0, 1});
  p.steps.push_back({"call", "call", "", last.start + last.seconds, after, 0, 0, 1});
}

}  // namespace

Profile profile(const Model& model, const Model::Tensors& inputs, int threads) {
  Profile p;
  p.threads = threads > 0 ? threads : thread_count();
  p.peaks = machine_peaks(p.threads);
  p.passes = model.timings();
  RunRequest request;
  request.inputs = ordered_inputs(model.program(), inputs);
  request.prepare_fully = true;
  model.executable().run(request);
  constexpr int kMost = 20;
  constexpr double kEnough = 0.5;  // seconds
  double spent = 0;
  for (int i = 0; i < kMost && spent < kEnough; ++i) {
    Profile run;
    time_a_run(model.executable(), request, run);
    if (run.steps.empty()) break;
    spent += run.seconds;
    if (i > 0 && run.seconds >= p.seconds) continue;
    p.steps = std::move(run.steps);
    p.seconds = run.seconds;
  }
  p.use = model.executable().use();
  if (const auto* says = dynamic_cast<const SaysPlaces*>(&model.executable())) p.places = says->places();
  p.peak_memory = peak_memory();
  if (p.steps.empty()) {
    throw Error(ErrorCode::usage, fmt::format("the backend {} does not say where its time goes", model.backend()))
        .hint("profile on a backend that has steps, such as cpu");
  }
  return p;
}

Profile profile_of(const StepLog& log, int threads) {
  Profile p;
  p.threads = threads > 0 ? threads : thread_count();
  p.peaks = machine_peaks(p.threads);
  for (const auto& [key, sum] : log.sums()) {
    const auto& [kernel, op, layer] = key;
    p.steps.push_back({kernel, op, layer, 0, sum.seconds, sum.work, sum.bytes, sum.times});
    p.seconds += sum.seconds;
  }
  p.peak_memory = peak_memory();
  return p;
}

// In the order in which they ran.
static Json steps_json(const Profile& p) {
  Json steps = Json::array();
  for (const ProfiledStep& s : p.steps) {
    steps.push_back({{"kernel", s.kernel},
                     {"op", s.op},
                     {"layer", s.layer},
                     {"start_ms", s.start * 1e3},
                     {"ms", s.seconds * 1e3},
                     {"times", s.times},
                     {"gflop", multiplies(s.kernel) ? 2 * s.work / 1e9 : 0},
                     {"bytes", s.bytes}});
  }
  return steps;
}

// Where activations lie, and from which step to which; steps as steps_json() counts them, after the call's own.
static Json buffers_json(const Profile& p) {
  Json buffers = Json::array();
  for (const PlacedBuffer& b : p.places)
    buffers.push_back({{"offset", b.offset}, {"bytes", b.bytes}, {"first", b.first + 1}, {"last", b.last + 1}});
  return buffers;
}

Json to_json(const Profile& p) {
  Json passes = Json::array(), plans = Json::array();
  for (const PassTiming& pass : p.passes) passes.push_back({{"name", pass.name}, {"ms", pass.seconds * 1e3}});
  for (const ExecutableUse::Planned& plan : p.use.planned) plans.push_back({{"why", plan.why}, {"ms", plan.seconds * 1e3}});
  return {{"ms", p.seconds * 1e3},
          {"accounted", p.accounted()},
          {"evaluated", p.evaluated()},
          {"threads", p.threads},
          {"peaks", {{"gflops", p.peaks.gflops}, {"read_gbs", p.peaks.read_gbs}}},
          {"weight_bytes", p.use.weight_bytes},
          {"arena_bytes", p.use.arena_bytes},
          {"peak_bytes", p.peak_memory},
          {"passes", passes},
          {"plans", plans},
          {"kernels", rows(by_kernel(p))},
          {"ops", rows(by_op(p))},
          {"layers", rows(by_layer(p))},
          {"buffers", buffers_json(p)},
          {"steps", steps_json(p)}};
}

void write_chrome_trace(const Profile& p, const std::filesystem::path& path) {
  Json events = Json::array();
  for (const ProfiledStep& s : p.steps) {
    events.push_back({{"name", s.kernel},
                      {"cat", s.op},
                      {"ph", "X"},
                      {"pid", 1},
                      {"tid", 1},
                      {"ts", s.start * 1e6},
                      {"dur", s.seconds * 1e6},
                      {"args", {{"op", s.op}, {"layer", s.layer}}}});
  }
  write_text(path, Json{{"traceEvents", events}, {"displayTimeUnit", "ms"}}.dump());
}

}  // namespace pycandle
