// pycandle forward: runs a recorded model and shows its outputs.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/json.h"
#include "base/safetensors.h"
#include "cli/profile.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "cli/weights.h"
#include "runtime/text_model.h"

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

// What a model that gives logits thinks comes next: the most probable tokens behind the prompt.
struct NextToken {
  TokenId id;
  double probability;
  std::string text;
};

std::vector<NextToken> next_tokens(const Model& model, const RunOptions& options, const Model::Tensors& outputs) {
  const std::optional<std::string> name = logits_output(model.program());
  if (!name || options.prompt.empty()) return {};
  const std::vector<double> all = load_double(outputs.at(*name));
  const auto count = static_cast<size_t>(outputs.at(*name).shape()[2]);
  const std::vector<double> logits(all.end() - static_cast<std::ptrdiff_t>(count), all.end());
  std::vector<TokenId> order(count);
  std::iota(order.begin(), order.end(), TokenId{0});
  const size_t shown = std::min<size_t>(5, count);
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(shown), order.end(),
                    [&](TokenId a, TokenId b) { return logits[a] > logits[b]; });
  double sum = 0;
  for (const double logit : logits) sum += std::exp(logit - logits[order[0]]);
  const Tokenizer tokenizer = tokenizer_for(model, options);
  std::vector<NextToken> next;
  for (size_t i = 0; i < shown; ++i) {
    const double probability = std::exp(logits[order[i]] - logits[order[0]]) / sum;
    next.push_back({order[i], probability, tokenizer.decode({order[i]}, false)});
  }
  return next;
}

Json to_json(const std::vector<NextToken>& tokens) {
  Json list = Json::array();
  for (const NextToken& t : tokens) list.push_back({{"token", t.id}, {"probability", t.probability}, {"text", t.text}});
  return list;
}

Json number(double v) { return std::isfinite(v) ? Json(v) : Json(fmt::format("{}", v)); }

struct Described {
  Table table;
  Json list = Json::array();
};

Described described(const Program& program, const Model::Tensors& outputs) {
  Described all;
  for (const Output& output : program.outputs) {
    const Array& array = outputs.at(output.name);
    const Summary s = summarise(array);
    const bool numbers = s.nan < array.size();  // that are some
    std::vector<std::string> first;
    for (const double v : s.first) first.push_back(fmt::format("{:.4g}", v));
    const std::string range = array.size() == 0 ? "empty"
                              : !numbers        ? "all NaN"
                                                : fmt::format("min {:.4g}  mean {:.4g}  max {:.4g}", s.min, s.mean, s.max);
    all.table.row({output.name, fmt::format("{}{}", name_of(array.dtype()), to_string(array.shape())), range,
                   s.nan > 0 ? styled(fmt::format("{} NaN", s.nan), Style::red)
                             : fmt::format("{}{}", fmt::join(first, " "), array.size() > 4 ? " …" : "")});
    all.list.push_back({{"name", output.name},
                        {"dtype", name_of(array.dtype())},
                        {"shape", array.shape()},
                        {"min", numbers ? number(s.min) : Json()},
                        {"mean", numbers ? number(s.mean) : Json()},
                        {"max", numbers ? number(s.max) : Json()},
                        {"nan", s.nan}});
  }
  return all;
}

// A text on one line, as JSON writes it.
std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

void run_forward(RunOptions& options, Context& context) {
  tune_if_asked(options);
  const Model model = load_for(options);
  const Model::Tensors inputs = inputs_for(model, options);
  const Model::Tensors recorded = model.states();
  Progress clock("forward");
  const Model::Tensors outputs = model.forward(inputs);
  const double seconds = clock.seconds();
  const std::vector<std::string> changed = changed_states(model, recorded);
  if (!options.out.empty()) write_safetensors(options.out, outputs);
  const Described shown = described(model.program(), outputs);
  const std::vector<NextToken> next = next_tokens(model, options, outputs);
  const auto& overrides = options.load.pipeline.overrides;
  clock.stage("forward: measuring");
  std::optional<Profile> profiled;
  if (options.profile || !options.profile_out.empty()) profiled = profile(model, inputs, options.load.pipeline.threads);
  clock.finish();
  if (!options.profile_out.empty()) write_chrome_trace(*profiled, options.profile_out);
  if (context.json) {
    Json document{{"status", "fine"},           {"name", model.program().name},
                  {"backend", model.backend()}, {"overrides", overrides},
                  {"seconds", seconds},         {"outputs", shown.list},
                  {"changed_states", changed},  {"weights", Json::parse(counts_json(model.ledger()))},
                  {"out", options.out},         {"profile", profiled ? to_json(*profiled) : Json()}};
    if (!next.empty()) document["next_tokens"] = to_json(next);
    fmt::print("{}\n", document.dump(2, ' ', false, Json::error_handler_t::replace));
    return;
  }
  fmt::print("{} · {} · {:.2f} s\n{}", styled(model.program().name, Style::bold), model.backend(), seconds,
             shown.table.text("  ", {3}));
  for (const NextToken& t : next)
    fmt::print("{}{:5.1f} %  {}\n", &t == &next.front() ? "next: " : "      ", 100 * t.probability, quoted(t.text));
  fmt::print("weights: {}", ledger_text(model.ledger()));
  if (!changed.empty())
    fmt::print("changed states: {}; the next run starts from the recorded ones again\n", fmt::join(changed, ", "));
  if (options.tune) {
    std::vector<std::string> chosen;
    for (const auto& [op, way] : overrides) chosen.push_back(op + "=" + way);
    fmt::print("tuned: {}\n", chosen.empty() ? "nothing to choose" : fmt::format("{}", fmt::join(chosen, " ")));
  }
  if (options.profile) fmt::print("{}", to_text(*profiled));
  if (options.timing) print_timings(model.timings());
  if (!options.out.empty()) fmt::print("written to {}\n", options.out);
}

}  // namespace

void add_forward(Command& app, Context& context) {
  auto options = std::make_shared<RunOptions>();
  Command command = add_command(app, context, "forward", "run a recorded model, on random inputs or on yours",
                                "pycandle forward pycandle_trace --seed 1 --set s0=4 --out outputs.safetensors");
  options->load.backend = usual_backend();
  add_run_options(command, *options);
  add_tune_option(command, *options);
  command.add_flag("--profile", options->profile, "show where the time of a run goes: by kernel, op and layer");
  command.add_option("--profile-out", options->profile_out, "write the steps of a run as a Chrome trace");
  command.callback([options, &context] { run_forward(*options, context); });
}

}  // namespace pycandle::cli
