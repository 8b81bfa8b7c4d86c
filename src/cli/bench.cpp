// pycandle bench: how long a recorded model takes, on each backend and with each number of threads, side by side.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "base/json.h"
#include "base/threads.h"
#include "cli/running.h"
#include "cli/terminal.h"

namespace pycandle::cli {
namespace {

struct Runner {
  std::string backend;
  int threads;
  Model model;
  std::vector<Array> outputs;       // of the warm-up
  double first_ms = 0;              // the first run, which plans and packs
  std::vector<double> times = {};   // ms
  double median() const { return times[times.size() / 2]; }
  double best() const { return times.front(); }
  // Half of the runs lie within this share of the median.
  double spread() const { return (times[times.size() * 3 / 4] - times[times.size() / 4]) / median(); }
};

double run_ms(const Runner& r, const RunRequest& request, std::vector<Array>* outputs = nullptr) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::vector<Array> results = r.model.executable().run(request);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  if (outputs) *outputs = std::move(results);
  return ms;
}

// The largest difference, relative to the largest number of the first.
double difference(const std::vector<Array>& a, const std::vector<Array>& b) {
  double worst = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (is_complex(a[i].dtype())) continue;
    const std::vector<double> x = load_double(a[i]), y = load_double(b[i]);
    double scale = 1e-30, most = 0;
    for (size_t k = 0; k < x.size(); ++k) {
      if (!std::isfinite(x[k])) continue;
      scale = std::max(scale, std::abs(x[k]));
      most = std::max(most, std::abs(x[k] - y[k]));
    }
    worst = std::max(worst, most / scale);
  }
  return worst;
}

}  // namespace

void add_bench(Command& app, Context& context) {
  struct Options {
    RunOptions run;
    std::vector<std::string> backends = {"cpu"};
    std::vector<int> threads;
    double seconds = 3;
    int rounds = 5;
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "bench", "time a recorded model on backends and numbers of threads, in turns",
                                "pycandle bench pycandle_trace/gpt2_manifest.json --backend cpu --threads 1,2");
  command.add_option("model", options->run.model, "a manifest, the folder of one, or a bundle").required();
  command.add_option("--backend", options->backends, fmt::format("some of: {}", fmt::join(backend_names(), ", ")))
      .delimiter(',')
      .shows_default();
  command.add_option("--threads", options->threads, "numbers of threads, such as 1,2").delimiter(',').between(1, 1024);
  command.add_option("--seconds", options->seconds, "how long each runner is measured, at least one run a round").shows_default();
  command.add_option("--rounds", options->rounds, "turns of each runner").shows_default().between(1, 1000);
  Option inputs = command.add_option("--inputs", options->run.inputs, "a safetensors file with the inputs, under their names");
  command.add_option("--seed", options->run.seed, "seed of the random inputs").shows_default().excludes(inputs);
  command.add_option("--set", options->run.sizes, "size of a dynamic dim of the random inputs, such as s0=4 (repeatable)")
      .excludes(inputs);
  add_backend_options(command, options->run.load.pipeline, false);
  command.callback([options, &context] {
    constexpr double kSameWithin = 1e-3;
    if (options->threads.empty()) options->threads.push_back(thread_count());
    std::vector<Runner> runners;
    RunRequest request;
    for (const std::string& backend : options->backends) {
      for (const int threads : options->threads) {
        LoadOptions load = options->run.load;
        load.backend = backend;
        load.pipeline.threads = threads;
        runners.push_back({backend, threads, load_model(options->run.model, load), {}});
        Runner& r = runners.back();
        if (runners.size() == 1) request.inputs = ordered_inputs(r.model.program(), inputs_for(r.model, options->run));
        r.first_ms = run_ms(r, request, &r.outputs);
        if (const double off = difference(runners[0].outputs, r.outputs); !(off <= kSameWithin)) {
          throw Error(ErrorCode::bad_input, "the runners compute different things, so their times cannot be compared")
              .expected(fmt::format("within {} of what {} gives", kSameWithin, runners[0].backend))
              .found(fmt::format("{} is off by {:.2g}", backend, off));
        }
      }
    }
    for (int round = 0; round < options->rounds; ++round) {
      for (Runner& r : runners) {
        double left = options->seconds * 1e3 / options->rounds;
        do {
          r.times.push_back(run_ms(r, request));
          left -= r.times.back();
        } while (left > 0);
      }
    }
    Table table;
    Json rows = Json::array();
    table.row({"runner", "threads", "median", "best", "spread", "ratio", "first run"});
    for (Runner& r : runners) std::sort(r.times.begin(), r.times.end());
    for (const Runner& r : runners) {
      const double ratio = r.median() / runners[0].median();
      table.row({r.backend, std::to_string(r.threads), fmt::format("{:.3f} ms", r.median()), fmt::format("{:.3f} ms", r.best()),
                 fmt::format("{:.0f} %", 100 * r.spread()), fmt::format("{:.2f}", ratio), fmt::format("{:.1f} ms", r.first_ms)});
      rows.push_back({{"runner", r.backend},
                      {"model", r.model.program().name},
                      {"threads", r.threads},
                      {"median_ms", r.median()},
                      {"best_ms", r.best()},
                      {"spread", r.spread()},
                      {"ratio", ratio},
                      {"first_ms", r.first_ms},
                      {"runs", r.times.size()}});
    }
    if (context.json) {
      fmt::print("{}\n", Json{{"status", "fine"}, {"overrides", options->run.load.pipeline.overrides}, {"rows", rows}}.dump(2));
      return;
    }
    fmt::print("{}\n{}", styled(runners[0].model.program().name, Style::bold), table.text());
  });
}

}  // namespace pycandle::cli
