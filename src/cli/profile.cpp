#include "cli/profile.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "base/error.h"
#include "base/file.h"
#include "cli/terminal.h"

namespace pycandle::cli {
namespace {

struct Sum {
  double seconds = 0, work = 0;
  size_t steps = 0;
};

using Groups = std::vector<std::pair<std::string, Sum>>;

template <class Key> Groups grouped(const Profile& p, const Key& key) {
  std::map<std::string, Sum> sums;
  for (const ProfiledStep& s : p.steps) {
    Sum& sum = sums[key(s)];
    sum.seconds += s.seconds;
    sum.work += s.work;
    ++sum.steps;
  }
  Groups groups(sums.begin(), sums.end());
  std::stable_sort(groups.begin(), groups.end(),
                   [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  return groups;
}

// Kernels whose work is counted in multiply-adds.
bool multiplies(const std::string& kernel) { return kernel == "gemm" || kernel == "attention" || kernel == "depthwise"; }

Groups by_kernel(const Profile& p) {
  return grouped(p, [](const ProfiledStep& s) { return s.kernel; });
}
Groups by_op(const Profile& p) {
  return grouped(p, [](const ProfiledStep& s) { return s.op; });
}
Groups by_layer(const Profile& p) {
  return grouped(p, [](const ProfiledStep& s) { return s.layer.empty() ? "(root)" : s.layer; });
}

std::string table(const Profile& p, const char* title, const Groups& groups, bool with_rate) {
  constexpr size_t kMost = 15;
  Table t;
  for (size_t i = 0; i < std::min(kMost, groups.size()); ++i) {
    const auto& [name, sum] = groups[i];
    const std::string rate = with_rate && multiplies(name) && sum.seconds > 0
                                 ? fmt::format("{:.1f} GFLOP/s", 2 * sum.work / sum.seconds / 1e9)
                                 : "";
    t.row({name, fmt::format("{:.3f} ms", sum.seconds * 1e3), fmt::format("{:.1f} %", 100 * sum.seconds / p.seconds),
           fmt::format("{} steps", sum.steps), rate});
  }
  const std::string more = groups.size() > kMost ? fmt::format("  and {} more\n", groups.size() - kMost) : "";
  return fmt::format("{}\n{}{}", title, t.text(), more);
}

Json rows(const Groups& groups) {
  Json list = Json::array();
  for (const auto& [name, sum] : groups) {
    list.push_back({{"name", name}, {"ms", sum.seconds * 1e3}, {"steps", sum.steps}, {"work", sum.work}});
  }
  return list;
}

}  // namespace

double Profile::accounted() const {
  double sum = 0;
  for (const ProfiledStep& s : steps) sum += s.seconds;
  return seconds > 0 ? sum / seconds : 0;
}

Profile profile(const Model& model, const Model::Tensors& inputs) {
  Profile p;
  RunRequest request;
  request.inputs = ordered_inputs(model.program(), inputs);
  model.executable().run(request);
  request.on_step = [&](const StepTime& s) {
    p.steps.push_back({std::string(s.kernel), std::string(s.op), s.layer, s.start, s.seconds, s.work});
  };
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  model.executable().run(request);
  p.seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  if (p.steps.empty()) {
    throw Error(ErrorCode::usage, fmt::format("the backend {} does not say where its time goes", model.backend()))
        .hint("profile with --backend cpu; a program whose sizes depend on data runs on the reference there too");
  }
  return p;
}

std::string to_text(const Profile& p) {
  return fmt::format("{}{}{}{:.3f} ms in {} steps, {:.1f} % of it accounted for\n", table(p, "by kernel", by_kernel(p), true),
                     table(p, "by op", by_op(p), false), table(p, "by layer", by_layer(p), false), p.seconds * 1e3,
                     p.steps.size(), 100 * p.accounted());
}

Json to_json(const Profile& p) {
  return {{"ms", p.seconds * 1e3},
          {"accounted", p.accounted()},
          {"kernels", rows(by_kernel(p))},
          {"ops", rows(by_op(p))},
          {"layers", rows(by_layer(p))}};
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
