#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "base/threads.h"
#include "cli/terminal.h"

namespace pycandle::cli {
namespace {

struct Sum {
  double seconds = 0, work = 0, bytes = 0;
  double multiplied = 0;  // the seconds of steps whose work is multiply-adds
  size_t steps = 0;
  double gflops() const { return multiplied > 0 ? 2 * work / multiplied / 1e9 : 0; }
  double gbs() const { return seconds > 0 ? bytes / seconds / 1e9 : 0; }
};

// Kernels whose work is counted in multiply-adds.
bool multiplies(const std::string& kernel) { return kernel == "gemm" || kernel == "attention" || kernel == "depthwise"; }

using Groups = std::vector<std::pair<std::string, Sum>>;

template <class Key> Groups grouped(const Profile& p, const Key& key) {
  std::map<std::string, Sum> sums;
  for (const ProfiledStep& s : p.steps) {
    Sum& sum = sums[key(s)];
    sum.seconds += s.seconds;
    sum.bytes += s.bytes;
    if (multiplies(s.kernel)) sum.work += s.work;
    if (multiplies(s.kernel)) sum.multiplied += s.seconds;
    ++sum.steps;
  }
  Groups groups(sums.begin(), sums.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return groups;
}

Groups by_kernel(const Profile& p) {
  return grouped(p, [](const ProfiledStep& s) { return s.kernel; });
}
Groups by_op(const Profile& p) {
  return grouped(p, [](const ProfiledStep& s) { return s.op; });
}
Groups by_layer(const Profile& p) {
  return grouped(p, [](const ProfiledStep& s) { return s.layer.empty() ? "(root)" : s.layer; });
}

std::string table(const Profile& p, const char* title, const Groups& groups) {
  constexpr size_t kMost = 15;
  Table t;
  for (size_t i = 0; i < std::min(kMost, groups.size()); ++i) {
    const auto& [name, sum] = groups[i];
    const auto rate = [](double found, const char* unit, double peak) {
      return found > 0 ? fmt::format("{:.1f} {} ({:.0f} %)", found, unit, 100 * found / peak) : "";
    };
    t.row({name, fmt::format("{:.3f} ms", sum.seconds * 1e3), fmt::format("{:.1f} %", 100 * sum.seconds / p.seconds),
           fmt::format("{} steps", sum.steps), rate(sum.gflops(), "GFLOP/s", p.peaks.gflops),
           rate(sum.gbs(), "GB/s", p.peaks.read_gbs)});
  }
  const std::string more = groups.size() > kMost ? fmt::format("  and {} more\n", groups.size() - kMost) : "";
  return fmt::format("{}\n{}{}", title, t.text("  ", {3}), more);
}

double seconds_of(const std::vector<PassTiming>& passes) {
  double sum = 0;
  for (const PassTiming& pass : passes) sum += pass.seconds;
  return sum;
}

Json rows(const Groups& groups) {
  Json list = Json::array();
  for (const auto& [name, sum] : groups) {
    list.push_back(
        {{"name", name}, {"ms", sum.seconds * 1e3}, {"steps", sum.steps}, {"gflops", sum.gflops()}, {"gbs", sum.gbs()}});
  }
  return list;
}

}  // namespace

double Profile::accounted() const {
  double sum = 0;
  for (const ProfiledStep& s : steps) sum += s.seconds;
  return seconds > 0 ? sum / seconds : 0;
}

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
    p.steps.push_back({std::string(s.kernel), std::string(s.op), s.layer, s.start, s.seconds, s.work, s.bytes});
    last_noted = Clock::now();
  };
  executable.run(request);
  if (p.steps.empty()) return;
  const double after = seconds(Clock::now() - last_noted);
  p.seconds = seconds(first_noted - begin) + after;
  const ProfiledStep first = p.steps.front(), last = p.steps.back();
  p.steps.insert(p.steps.begin(), {"call", "call", "", 0, first.start, 0, 0});
  p.steps.push_back({"call", "call", "", last.start + last.seconds, after, 0, 0});
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
        .hint("profile with --backend cpu; a program whose sizes depend on data runs on the reference there too");
  }
  return p;
}

std::string to_text(const Profile& p) {
  std::string text = table(p, "by kernel", by_kernel(p)) + table(p, "by op", by_op(p)) + table(p, "by layer", by_layer(p));
  Table passes;
  for (const PassTiming& pass : p.passes) {
    if (pass.seconds >= 1e-3) passes.row({pass.name, fmt::format("{:.1f} ms", pass.seconds * 1e3)});
  }
  text += fmt::format("passes ({:.1f} ms in all)\n{}plans\n", seconds_of(p.passes) * 1e3, passes.text());
  Table plans;
  for (const ExecutableUse::Planned& plan : p.use.planned) plans.row({plan.why, fmt::format("{:.1f} ms", plan.seconds * 1e3)});
  return text + fmt::format(
                    "{}memory: weights {:.1f} MB, activations {:.1f} MB, the process at most {:.1f} MB\n"
                    "{} threads: at most {:.0f} GFLOP/s and {:.1f} GB/s, as measured here\n"
                    "{:.3f} ms in {} steps, {:.1f} % of it accounted for\n",
                    plans.text(), static_cast<double>(p.use.weight_bytes) / 1e6, static_cast<double>(p.use.arena_bytes) / 1e6,
                    static_cast<double>(p.peak_memory) / 1e6, p.threads, p.peaks.gflops, p.peaks.read_gbs, p.seconds * 1e3,
                    p.steps.size(), 100 * p.accounted());
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

}  // namespace pycandle::cli
