// pycandle bench-runner: our own runner for `pycandle bench`, in a process of its own as every other.
#include <fmt/format.h>

#include <iostream>
#include <memory>

#include "backends/step_log.h"
#include "base/json.h"
#include "base/safetensors.h"
#include "base/version.h"
#include "cli/bench_process.h"
#include "cli/running.h"

namespace pycandle::cli {

namespace {

// The share of a run's steps that the reference's evaluators take.
double evaluated_share(const Executable& executable, RunRequest request) {
  double all = 0, evaluated = 0;
  request.on_step = [&](const StepTime& step) {
    all += step.seconds;
    if (step.kernel == kEvaluator) evaluated += step.seconds;
  };
  executable.run(request);
  return all > 0 ? evaluated / all : 0;
}

}  // namespace

void add_bench_runner(Command& app, Context& context) {
  struct Options {
    RunOptions run;
    std::string outputs;
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "bench-runner", "what pycandle bench starts for each backend", "pycandle bench M");
  command.hide();
  command.add_option("model", options->run.model, "as of bench").required();
  command.add_option("--backend", options->run.load.backend, "as of bench");
  command.add_option("--inputs", options->run.inputs, "a safetensors file with the inputs").required();
  command.add_option("--outputs", options->outputs, "where the first outputs go").required();
  add_backend_options(command, options->run.load.pipeline);
  add_pipeline_options(command, options->run.load.pipeline);
  command.callback([options] {
    const auto say = [](const Json& answer) {
      fmt::print("{}\n", answer.dump());
      std::fflush(stdout);
    };
    try {
      const Model model = open_model(options->run.model, options->run.load);
      RunRequest request;  // without states: every run starts from the recorded ones
      request.inputs = ordered_inputs(model.program(), inputs_for(model, options->run));
      const double loaded = monotonic_seconds();
      std::vector<Array> results = model.executable().run(request);
      const double first = monotonic_seconds();
      Model::Tensors named;
      for (size_t i = 0; i < results.size(); ++i) named[fmt::format("{:04}", i)] = results[i];
      write_safetensors(options->outputs, named);
      named.clear();
      results.clear();
      say({{"version", std::string("pycandle ") + version()},
           {"loaded", loaded},
           {"first", first},
           {"evaluated", evaluated_share(model.executable(), request)}});
      for (std::string line; std::getline(std::cin, line);) {
        model.executable().run(request);  // brings the model back into the caches after the other runners' turns
        Json times = Json::array();
        const double until = monotonic_seconds() + std::stod(line) * 1e-3;
        do {
          const double start = monotonic_seconds();
          model.executable().run(request);
          times.push_back((monotonic_seconds() - start) * 1e3);
        } while (monotonic_seconds() < until);
        say(times);
      }
    } catch (const Error& error) {
      say({{"error", error.text()}});
    }
  });
}

}  // namespace pycandle::cli
