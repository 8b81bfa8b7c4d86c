#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/terminal.h"

namespace pycandle::cli {
namespace {

std::string table(const Profile& p, const char* title, const StepSums& groups) {
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

}  // namespace

namespace {

// What came before the run, and what it holds.
std::string preparations(const Profile& p) {
  Table passes, plans;
  for (const PassTiming& pass : p.passes) {
    if (pass.seconds >= 1e-3) passes.row({pass.name, fmt::format("{:.1f} ms", pass.seconds * 1e3)});
  }
  for (const ExecutableUse::Planned& plan : p.use.planned) plans.row({plan.why, fmt::format("{:.1f} ms", plan.seconds * 1e3)});
  return fmt::format(
      "passes ({:.1f} ms in all)\n{}plans\n{}memory: weights {:.1f} MB, activations {:.1f} MB, the process at most {:.1f} MB\n",
      seconds_of(p.passes) * 1e3, passes.text(), plans.text(), static_cast<double>(p.use.weight_bytes) / 1e6,
      static_cast<double>(p.use.arena_bytes) / 1e6, static_cast<double>(p.peak_memory) / 1e6);
}

}  // namespace

std::string to_text(const Profile& p) {
  size_t steps = 0;
  for (const ProfiledStep& step : p.steps) steps += step.times;
  return table(p, "by kernel", by_kernel(p)) + table(p, "by op", by_op(p)) + table(p, "by layer", by_layer(p)) +
         (p.passes.empty() ? "" : preparations(p)) +
         fmt::format(
             "{} threads: at most {:.0f} GFLOP/s and {:.1f} GB/s, as measured here\n"
             "{:.3f} ms in {} steps, {:.1f} % of it accounted for{}\n",
             p.threads, p.peaks.gflops, p.peaks.read_gbs, p.seconds * 1e3, steps, 100 * p.accounted(),
             p.evaluated() > 0 ? fmt::format(", {:.1f} % on evaluators of the reference", 100 * p.evaluated()) : "");
}

void RunsProfile::print() const {
  if (log_) fmt::print("{}", to_text(profile_of(*log_, threads_)));
}

void RunsProfile::add_to(Json& document) const {
  if (log_) document["profile"] = to_json(profile_of(*log_, threads_));
}

void add_profile_option(Command& command, bool& wanted) {
  command.add_flag("--profile", wanted, "show where the time of all runs goes: by kernel, op and layer");
}

}  // namespace pycandle::cli
