// pycandle verify: tap by tap against what PyTorch computed.
#include "verify/verify.h"

#include <fmt/format.h>

#include <filesystem>
#include <optional>
#include <set>

#include "cli/command.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "verify/diagnosing/repro.h"
#include "verify/hashes.h"
#include "verify/result_file.h"
#include "verify/result_json.h"

namespace pycandle::cli {
namespace {

Style style_of(Verdict v) {
  switch (v) {
    case Verdict::exact: return Style::green;
    case Verdict::wrong_here: return Style::red;
    case Verdict::wrong_upstream:
    case Verdict::reference_unstable: return Style::yellow;
    default: return Style::plain;
  }
}

// The tap as a person calls it: a module's only output is the module.
std::string label(const std::string& tap, const std::string& input) {
  static const std::string kOutput = "/output", kState = "updated:";
  const std::string name = tap.ends_with(kOutput) ? tap.substr(0, tap.size() - kOutput.size()) : tap;
  const std::string of_input = input.empty() ? "" : input + ": ";
  if (name.starts_with(kState)) return of_input + "state " + name.substr(kState.size());
  return of_input + (name.starts_with("@0") ? "(root)" + name.substr(2) : name);
}
std::string label(const LayerResult& l) { return label(l.tap, l.input); }

std::vector<std::string> row(const LayerResult& l) {
  const bool wrong = l.verdict == Verdict::wrong_here;
  return {label(l),
          l.op,
          l.dtype + to_string(l.shape),
          styled(wrong ? "WRONG HERE" : to_string(l.verdict), style_of(l.verdict)),
          fmt::format("abs {}", short_number(l.metrics.max_abs)),
          fmt::format("rel {}", short_number(l.metrics.max_rel)),
          fmt::format("cos {:.7f}", l.metrics.cosine),
          l.cumulative ? fmt::format("whole run {}", short_number(l.cumulative->max_abs)) : "",
          styled(l.place, Style::dim)};
}

// "model.py:12:  x = x / s"
std::string line_text(const std::string& place, const std::string& source) {
  return place + (source.empty() ? "" : ":  " + source);
}

void print_wrong(const LayerResult& layer) {
  const bool is_tap = layer.input.empty() && !layer.tap.starts_with("updated:");
  fmt::print("\n{} {} ({})\n", styled("wrong here:", Style::red), is_tap ? layer.tap : label(layer), layer.op);
  if (!layer.place.empty()) fmt::print("  in    {}\n", line_text(layer.place, layer.source));
  if (!layer.code.empty()) fmt::print("  code  {}\n", line_text(layer.code, layer.code_source));
  fmt::print("  why   {}\n", layer.why);
  const Sizes at = coordinates_of(layer.metrics.largest_difference, layer.shape);
  if (!at.empty()) fmt::print("  most  at {}\n", to_string(at));
  if (!layer.diagnosis) return;
  const Diagnosis& d = *layer.diagnosis;
  if (d.place != layer.place || d.op != layer.op || d.code != layer.code) {
    fmt::print("  op    {}{}{}\n", d.op, d.place.empty() ? "" : ", " + d.place,
               d.code.empty() ? "" : ", " + line_text(d.code, d.code_source));
  }
  if (!d.pass.empty()) fmt::print("  pass  {}: right without it\n", d.pass);
  if (!d.cause.empty()) fmt::print("  cause {}\n", d.cause_kind.empty() ? d.cause : styled(d.cause, Style::yellow));
}

std::string counts_text(const VerifyResult& result) {
  std::string text;
  for (Verdict v : kVerdicts) {
    const bool always = v == Verdict::exact || v == Verdict::within_rounding;
    if (v == Verdict::wrong_here || (result.count(v) == 0 && !always)) continue;
    text += fmt::format("{} {}, ", result.count(v), to_string(v));
  }
  if (!result.damaged.empty()) text += fmt::format("{} damaged, ", result.damaged.size());
  return text + fmt::format("{} wrong", result.wrong());
}

void print_text(const VerifyResult& result, double seconds) {
  const std::string backend = result.against.empty() ? result.backend : result.backend + " against " + result.against;
  fmt::print("{} · {} · {} taps · {:.1f} s\n", styled(result.name, Style::bold), backend, result.layers.size(), seconds);
  Table table;
  for (const LayerResult& layer : result.layers) table.row(row(layer));
  fmt::print("{}", table.text());
  for (const LayerResult& layer : result.layers) {
    if (layer.verdict == Verdict::wrong_here) print_wrong(layer);
    if (!layer.decisions.empty()) fmt::print("{}: {}\n", label(layer), layer.decisions);
  }
  for (const std::string& name : result.damaged)
    fmt::print("damaged: {} has other bytes in its file than were recorded (checksum)\n", name);
  for (const SkippedTap& tap : result.skipped) fmt::print("not judged: {} ({})\n", tap.tap, tap.why);
  for (const OutputError& output : result.outputs) {
    fmt::print("whole run: {} differs from {} by at most {}\n", label(output.name, output.input),
               result.against.empty() ? "PyTorch" : result.against, short_number(output.metrics.max_abs));
  }
  const std::string said = result.layers.empty() ? "nothing was judged: " + result.why_none : counts_text(result);
  fmt::print("{}\n", styled(said, result.passed() ? Style::green : Style::red));
}

const char* kind_text(Change::Kind kind) {
  switch (kind) {
    case Change::Kind::better: return "better";
    case Change::Kind::worse: return "worse";
    case Change::Kind::gone: return "gone";
    default: return "new";
  }
}

Json to_json(const Comparison& comparison) {
  Json changes = Json::array();
  for (const Change& c : comparison.changes) changes.push_back({{"change", kind_text(c.kind)}, {"tap", c.tap}, {"what", c.text}});
  return {{"regressed", comparison.regressed()}, {"notes", comparison.notes}, {"changes", changes}};
}

void print_text(const Comparison& comparison) {
  for (const std::string& note : comparison.notes) fmt::print("since the baseline {}\n", note);
  for (const Change& c : comparison.changes) {
    const Style style = c.kind == Change::Kind::better ? Style::green : c.kind == Change::Kind::added ? Style::plain : Style::red;
    fmt::print("{} {}: {}\n", styled(kind_text(c.kind), style), c.tap, c.text);
  }
  if (comparison.changes.empty()) fmt::print("as the baseline\n");
}

Json to_json(const VerifyResult& result, double seconds) {
  Json layers = Json::array(), skipped = Json::array(), outputs = Json::array();
  for (const LayerResult& layer : result.layers) layers.push_back(pycandle::to_json(layer));
  for (const SkippedTap& tap : result.skipped) skipped.push_back({{"tap", tap.tap}, {"why", tap.why}});
  for (const OutputError& output : result.outputs) outputs.push_back(pycandle::to_json(output));
  return {{"status", result.passed() ? "passed" : "wrong"},
          {"why", result.why_none},
          {"name", result.name},
          {"backend", result.backend},
          {"against", result.against},
          {"counts", counts_json(result)},
          {"seconds", seconds},
          {"layers", layers},
          {"skipped", skipped},
          {"damaged", result.damaged},
          {"outputs", outputs}};
}

void add_traces(const std::filesystem::path& folder, std::vector<std::filesystem::path>& traces) {
  static const std::string kSuffix = "_trace.safetensors";
  std::set<std::filesystem::path> found;  // in the order of their names
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator(folder, failure)) {
    if (entry.path().filename().string().ends_with(kSuffix)) found.insert(entry.path());
  }
  if (found.empty()) {
    throw Error(ErrorCode::usage, "there are no goldens in this folder").expected("files *" + kSuffix).found(folder.string());
  }
  traces.insert(traces.end(), found.begin(), found.end());
}

}  // namespace

void add_verify(Command& app, Context& context) {
  struct Options {
    std::string model, out, baseline, source, repro, inputs;
    std::optional<double> atol, rtol;
    RunOptions run;  // --tune
    VerifyOptions verify;
  };
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "verify", "check every tap against PyTorch's values; exit 1 when anything is wrong",
                                "pycandle verify pycandle_trace/gpt2_manifest.json");
  command.add_option("model", options->model, "a manifest, the folder of one, or a bundle").required();
  command.add_option("--backend", options->verify.backend, fmt::format("one of: {}", fmt::join(backend_names(), ", ")))
      .shows_default();
  command.add_option("--against", options->verify.against,
                     "another backend: its values stand for PyTorch's, so a recording without goldens will do");
  command.add_flag("--all-taps", options->verify.all_taps, "also those taps whose value another tap already shows");
  command.add_option(
      "--program", options->verify.program,
      "a program captured from source code (Compiled::save, or an emitted test that failed) in place of the recorded one");
  command.add_option("--trace", options->verify.traces,
                     "goldens of the same recording at other inputs (GoldenRecorder.add_goldens); repeatable");
  command.add_option("--inputs", options->inputs, "a folder of such files, *_trace.safetensors: all of them");
  command.add_option("--atol", options->atol, "wrong is what differs by more than this, whatever rounding explains (0)")
      .at_least(0);
  command.add_option("--rtol", options->rtol, "… plus this times PyTorch's value (0)").at_least(0);
  command.add_option("--out", options->out, "write what was found to this file, a line a layer (docs/result-file.md)");
  command.add_option("--baseline", options->baseline,
                     "a file of --out: say what became better or worse; exit 1 when anything did");
  command.add_option("--repro", options->repro,
                     "write a folder for each wrong layer below this one: pycandle replay runs it again");
  command.add_option("--source", options->source, "emitted code whose hash goes into the result as well");
  add_backend_options(command, options->verify.pipeline);
  add_tune_option(command, options->run);
  add_pipeline_options(command, options->verify.pipeline);
  command.callback([options, &context] {
    VerifyOptions& verify = options->verify;
    options->run.model = options->model;
    options->run.load = {verify.backend, verify.pipeline};
    tune_if_asked(options->run);
    verify.pipeline.overrides = options->run.load.pipeline.overrides;
    Progress progress("verify");
    verify.progress = [&progress](size_t done, size_t total) { progress.update(done, total); };
    if (options->atol || options->rtol) verify.tolerance = Tolerance{options->atol.value_or(0), options->rtol.value_or(0)};
    if (!options->inputs.empty()) add_traces(options->inputs, verify.traces);
    std::optional<StoredResult> baseline;  // read first: a run takes longer
    if (!options->baseline.empty()) baseline = read_result(options->baseline);
    std::optional<ResultWriter> writer;
    if (!options->out.empty()) writer.emplace(options->out);
    verify.hash_files = writer || baseline;
    std::string source_hash;
    if (!options->source.empty()) source_hash = folder_hash(options->source);
    verify.on_start = [&](VerifyResult& result) {
      if (!source_hash.empty()) result.hashes["source"] = source_hash;
      if (writer) writer->start(result, verify);
    };
    verify.on_layer = [&](const LayerResult& layer) {
      if (writer) writer->layer(layer);
    };
    std::vector<std::string> folders;
    if (!options->repro.empty()) {
      verify.on_wrong = [&](const LayerResult& layer, const Reproduction& r) {
        folders.push_back(write_reproduction(options->repro, layer, r, verify.backend, verify.pipeline).string());
      };
    }
    const VerifyResult result = verify_recording(find_manifest(options->model), verify);
    if (writer) writer->finish(result);
    const std::optional<Comparison> comparison = baseline ? std::optional(compare_with(*baseline, result)) : std::nullopt;
    if (context.json) {
      Json json = to_json(result, progress.seconds());
      if (comparison) json["baseline"] = to_json(*comparison);
      if (!options->repro.empty()) json["repro"] = folders;
      fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
    } else {
      print_text(result, progress.seconds());
      if (comparison) print_text(*comparison);
      if (!folders.empty()) fmt::print("Next: pycandle replay {}\n", folders.front());
    }
    context.status = result.passed() && !(comparison && comparison->regressed()) ? 0 : 1;
  });
}

}  // namespace pycandle::cli
