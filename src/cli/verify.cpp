// pycandle verify: tap by tap against what PyTorch computed.
#include "verify/verify.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json.h"
#include "cli/command.h"
#include "cli/terminal.h"

namespace pycandle::cli {
namespace {

Json number(double v) { return std::isfinite(v) ? Json(v) : Json(fmt::format("{}", v)); }

Json to_json(const LayerResult& l) {
  return {{"tap", l.tap},
          {"path", l.path},
          {"op", l.op},
          {"python", l.place},
          {"source", l.source},
          {"dtype", l.dtype},
          {"shape", l.shape},
          {"max_abs", number(l.metrics.max_abs)},
          {"max_rel", number(l.metrics.max_rel)},
          {"rms", number(l.metrics.rms)},
          {"mse", number(l.metrics.mse)},
          {"cosine", number(l.metrics.cosine)},
          {"differing", l.metrics.differing},
          {"nan_mismatches", l.metrics.nan_mismatches},
          {"first_difference", l.metrics.first_difference},
          {"error_rms", number(l.error_rms)},
          {"error_max", number(l.error_max)},
          {"floor_rms", number(l.floor_rms)},
          {"floor_max", number(l.floor_max)},
          {"judged", l.judged},
          {"verdict", to_string(l.verdict)},
          {"why", l.why}};
}

Style style_of(Verdict v) { return v == Verdict::wrong_here ? Style::red : v == Verdict::exact ? Style::green : Style::plain; }

// The tap as a person calls it: a module's only output is the module.
std::string label(const LayerResult& l) {
  static const std::string kOutput = "/output";
  const bool whole = l.tap.size() > kOutput.size() && l.tap.compare(l.tap.size() - kOutput.size(), kOutput.size(), kOutput) == 0;
  const std::string name = whole ? l.tap.substr(0, l.tap.size() - kOutput.size()) : l.tap;
  return name.rfind("@0", 0) == 0 ? "(root)" + name.substr(2) : name;
}

std::vector<std::string> row(const LayerResult& l) {
  const bool wrong = l.verdict == Verdict::wrong_here;
  return {label(l),
          l.op,
          l.dtype + to_string(l.shape),
          styled(wrong ? "WRONG HERE" : to_string(l.verdict), style_of(l.verdict)),
          fmt::format("abs {}", short_number(l.metrics.max_abs)),
          fmt::format("rel {}", short_number(l.metrics.max_rel)),
          fmt::format("cos {:.7f}", l.metrics.cosine),
          styled(l.place, Style::dim)};
}

void print_text(const VerifyResult& result, double seconds) {
  fmt::print("{} · {} · {} taps · {:.1f} s\n", styled(result.name, Style::bold), result.backend, result.layers.size(), seconds);
  Table table;
  for (const LayerResult& layer : result.layers) table.row(row(layer));
  fmt::print("{}", table.text());
  for (const LayerResult& layer : result.layers) {
    if (layer.verdict != Verdict::wrong_here) continue;
    fmt::print("\n{} {} ({})\n", styled("wrong here:", Style::red), layer.tap, layer.op);
    if (!layer.place.empty()) fmt::print("  in    {}{}\n", layer.place, layer.source.empty() ? "" : ":  " + layer.source);
    fmt::print("  why   {}\n", layer.why);
  }
  for (const SkippedTap& tap : result.skipped) fmt::print("not judged: {} ({})\n", tap.tap, tap.why);
  for (const OutputError& output : result.outputs) {
    fmt::print("whole run: {} differs from PyTorch by at most {}\n", output.name, short_number(output.metrics.max_abs));
  }
  const std::string counts = fmt::format("{} exact, {} within rounding, {} wrong", result.exact, result.within_rounding,
                                         result.wrong);
  fmt::print("{}\n", styled(counts, result.passed() ? Style::green : Style::red));
}

}  // namespace

void add_verify(CLI::App& app, Context& context) {
  struct Options {
    std::string model;
    VerifyOptions verify;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = add_command(app, context, "verify",
                                  "check every tap against PyTorch's values; exit 1 when anything is wrong",
                                  "pycandle verify pycandle_trace/gpt2_manifest.json");
  command->add_option("model", options->model, "a manifest, the folder of one, or a bundle")->required();
  command->add_option("--backend", options->verify.backend, fmt::format("one of: {}", fmt::join(backend_names(), ", ")))
      ->capture_default_str();
  command->add_flag("--all-taps", options->verify.all_taps, "also those taps whose value another tap already shows");
  command->add_option("--trace", options->verify.trace,
                      "goldens of the same recording at other inputs (GoldenRecorder.add_goldens)");
  add_pipeline_options(command, options->verify.pipeline);
  command->callback([options, &context] {
    Progress progress("verify");
    options->verify.progress = [&progress](size_t done, size_t total) { progress.update(done, total); };
    const VerifyResult result = verify_recording(find_manifest(options->model), options->verify);
    if (context.json) {
      Json layers = Json::array(), skipped = Json::array(), outputs = Json::array();
      for (const LayerResult& layer : result.layers) layers.push_back(to_json(layer));
      for (const SkippedTap& tap : result.skipped) skipped.push_back({{"tap", tap.tap}, {"why", tap.why}});
      for (const OutputError& output : result.outputs) {
        outputs.push_back(
            {{"name", output.name}, {"max_abs", number(output.metrics.max_abs)}, {"cosine", number(output.metrics.cosine)}});
      }
      fmt::print(
          "{}\n",
          Json{{"status", result.passed() ? "passed" : "wrong"},
               {"name", result.name},
               {"backend", result.backend},
               {"counts", {{"exact", result.exact}, {"within_rounding", result.within_rounding}, {"wrong_here", result.wrong}}},
               {"seconds", progress.seconds()},
               {"layers", layers},
               {"skipped", skipped},
               {"outputs", outputs}}
              .dump(2, ' ', false, Json::error_handler_t::replace));
    } else {
      print_text(result, progress.seconds());
    }
    context.status = result.passed() ? 0 : 1;
  });
}

}  // namespace pycandle::cli
