// pycandle forward: runs a recorded model and shows its outputs.
#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/json.h"
#include "base/safetensors.h"
#include "cli/profile.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "cli/weights.h"

namespace pycandle::cli {
namespace {

struct Summary {
  double min = std::numeric_limits<double>::infinity(), max = -min, mean = 0;
  int64_t nan = 0;
  std::vector<double> first;
};

// Complex tensors are shown by their magnitude.
Summary summarise(const Array& array) {
  Summary s;
  const auto values = [&] {
    if (!is_complex(array.dtype())) return load_double(array);
    std::vector<double> magnitudes;
    for (const auto& z : load_complex(array)) magnitudes.push_back(std::abs(z));
    return magnitudes;
  }();
  for (const double v : values) {
    if (std::isnan(v)) {
      ++s.nan;
      continue;
    }
    s.min = std::min(s.min, v);
    s.max = std::max(s.max, v);
    s.mean += v / static_cast<double>(values.size());
  }
  s.first.assign(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(std::min<size_t>(4, values.size())));
  return s;
}

std::vector<std::string> changed_states(const Model& model, const Model::Tensors& before) {
  std::vector<std::string> names;
  for (const auto& [name, value] : model.states()) {
    if (!value.same_bytes(before.at(name))) names.push_back(name);
  }
  return names;
}

Json number(double v) { return std::isfinite(v) ? Json(v) : Json(fmt::format("{}", v)); }

}  // namespace

void add_forward(Command& app, Context& context) {
  auto options = std::make_shared<RunOptions>();
  Command command = add_command(
      app, context, "forward", "run a recorded model, on random inputs or on yours",
      "pycandle forward pycandle_trace/gpt2_manifest.json --seed 1 --set s0=4 --out outputs.safetensors");
  options->load.backend = usual_backend();
  add_run_options(command, *options);
  add_tune_option(command, *options);
  command.add_flag("--profile", options->profile, "show where the time of a run goes: by kernel, op and layer");
  command.add_option("--profile-out", options->profile_out, "write the steps of a run as a Chrome trace");
  command.callback([options, &context] {
    tune_if_asked(*options);
    const Model model = load_for(*options);
    const Model::Tensors inputs = inputs_for(model, *options);
    const Model::Tensors recorded = model.states();
    Progress clock("forward");
    const Model::Tensors outputs = model.forward(inputs);
    const double seconds = clock.seconds();
    const std::vector<std::string> changed = changed_states(model, recorded);
    if (!options->out.empty()) write_safetensors(options->out, outputs);
    Table table;
    Json list = Json::array();
    for (const Output& output : model.program().outputs) {
      const Array& array = outputs.at(output.name);
      const Summary s = summarise(array);
      const bool numbers = s.nan < array.size();  // that are some
      std::vector<std::string> first;
      for (const double v : s.first) first.push_back(fmt::format("{:.4g}", v));
      const std::string range = array.size() == 0 ? "empty"
                                : !numbers        ? "all NaN"
                                                  : fmt::format("min {:.4g}  mean {:.4g}  max {:.4g}", s.min, s.mean, s.max);
      table.row({output.name, fmt::format("{}{}", name_of(array.dtype()), to_string(array.shape())), range,
                 s.nan > 0 ? styled(fmt::format("{} NaN", s.nan), Style::red)
                           : fmt::format("{}{}", fmt::join(first, " "), array.size() > 4 ? " …" : "")});
      list.push_back({{"name", output.name},
                      {"dtype", name_of(array.dtype())},
                      {"shape", array.shape()},
                      {"min", numbers ? number(s.min) : Json()},
                      {"mean", numbers ? number(s.mean) : Json()},
                      {"max", numbers ? number(s.max) : Json()},
                      {"nan", s.nan}});
    }
    clock.stage("forward: measuring");
    std::optional<Profile> profiled;
    if (options->profile || !options->profile_out.empty()) profiled = profile(model, inputs, options->load.pipeline.threads);
    clock.finish();
    if (!options->profile_out.empty()) write_chrome_trace(*profiled, options->profile_out);
    if (context.json) {
      fmt::print("{}\n", Json{{"status", "fine"},
                              {"name", model.program().name},
                              {"backend", model.backend()},
                              {"overrides", options->load.pipeline.overrides},
                              {"seconds", seconds},
                              {"outputs", list},
                              {"changed_states", changed},
                              {"weights", Json::parse(counts_json(model.ledger()))},
                              {"out", options->out},
                              {"profile", profiled ? to_json(*profiled) : Json()}}
                             .dump(2));
      return;
    }
    fmt::print("{} · {} · {:.2f} s\n{}", styled(model.program().name, Style::bold), model.backend(), seconds,
               table.text("  ", {3}));
    fmt::print("weights: {}", ledger_text(model.ledger()));
    if (!changed.empty())
      fmt::print("changed states: {}; the next run starts from the recorded ones again\n", fmt::join(changed, ", "));
    if (options->tune) {
      std::vector<std::string> chosen;
      for (const auto& [op, way] : options->load.pipeline.overrides) chosen.push_back(op + "=" + way);
      fmt::print("tuned: {}\n", chosen.empty() ? "nothing to choose" : fmt::format("{}", fmt::join(chosen, " ")));
    }
    if (options->profile) fmt::print("{}", to_text(*profiled));
    if (options->timing) print_timings(model.timings());
    if (!options->out.empty()) fmt::print("written to {}\n", options->out);
  });
}

}  // namespace pycandle::cli
