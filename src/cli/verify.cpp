// pycandle verify: tap by tap against what PyTorch computed.
#include "verify/verify.h"

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "base/file.h"
#include "cli/command.h"
#include "cli/profile.h"
#include "cli/running.h"
#include "cli/terminal.h"
#include "cli/verify_bundle.h"
#include "cli/verify_decode.h"
#include "cli/verify_onnx.h"
#include "cli/verify_report.h"
#include "cli/verify_stream.h"
#include "cli/weights.h"
#include "import/bundle.h"
#include "ops/core/catalogue.h"
#include "verify/diagnosing/repro.h"
#include "verify/hashes.h"
#include "verify/result_file.h"
#include "verify/result_json.h"

namespace pycandle::cli {
namespace {

constexpr const char* kOnnxRuntime = "onnxruntime";

struct Options {
  std::vector<std::string> sizes;
  uint64_t seed = 0;
  std::string model, out, baseline, source, repro, inputs, python;
  std::optional<double> atol, rtol;
  RunOptions run;  // --tune, --checkpoint, --ledger
  VerifyOptions verify;
  bool all = false, decode = false, stream = false;
  std::string cache = "f32";
};

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

std::vector<std::string> backend_names_and(const std::string& more) {
  std::vector<std::string> names = backend_names();
  names.push_back(more);
  return names;
}

void write_ledger(const Options& options, const VerifyResult& result) {
  if (result.ledger) return write_text(options.run.ledger, to_json(*result.ledger) + "\n");
  const Recording recording = import_manifest(options.model, catalogue());
  write_text(options.run.ledger, to_json(recorded_ledger(recording, *recorded_parameters(recording))) + "\n");
}

void refuse_what_does_not_go_together(const Options& options) {
  if (options.verify.against != kOnnxRuntime && (!options.sizes.empty() || options.seed != 0))
    throw Error(ErrorCode::usage, "--set and --seed are for the inputs of --against onnxruntime");
  if (!options.decode && options.cache != "f32") throw Error(ErrorCode::usage, "--cache needs --decode");
  if (options.decode && options.run.profile)
    throw Error(ErrorCode::usage, "--profile is for the forward pass").hint("pycandle generate --profile times the decode step");
  if (options.stream && options.verify.checkpoint)
    throw Error(ErrorCode::usage, "--stream reads the recording's own weights, in torch and here")
        .hint("pycandle weights extract --checkpoint … writes them; then verify --stream");
}

void run_verify(Options& options, Context& context) {
  VerifyOptions& verify = options.verify;
  options.run.model = options.model;
  options.run.load = {verify.backend, verify.pipeline};
  verify.checkpoint = checkpoint_of(options.run);
  refuse_what_does_not_go_together(options);
  tune_if_asked(options.run);
  verify.pipeline.overrides = options.run.load.pipeline.overrides;
  if (options.decode) {
    run_decode_proof(options.model, options.cache, verify.checkpoint, {verify.backend, verify.pipeline, {1, 3, 16}, 24}, context);
    return;
  }
  if (is_bundle(options.model) && verify.against.empty() && verify.traces.empty() && options.inputs.empty() && !options.stream) {
    run_bundle_check(options.model, context);
    return;
  }
  Progress progress("verify");
  verify.progress = [&progress](size_t done, size_t total) { progress.update(done, total); };
  if (options.atol || options.rtol) verify.tolerance = Tolerance{options.atol.value_or(0), options.rtol.value_or(0)};
  std::optional<StreamedGoldens> streamed;
  std::optional<OnnxGoldens> by_onnx_runtime;
  if (verify.against == kOnnxRuntime) {
    progress.stage("verify: ONNX Runtime computes the goldens");
    by_onnx_runtime.emplace(options.model, options.inputs, options.sizes, options.seed, options.python);
    progress.stage("verify");
    options.model = by_onnx_runtime->manifest().string();
    verify.against.clear();
    verify.goldens_by = "ONNX Runtime";
  } else if (options.stream) {
    progress.stage("verify: torch computes the goldens");
    streamed.emplace(options.model, options.inputs, options.python);
    progress.stage("verify");
    verify.traces = {streamed->trace()};
    if (!verify.parameter_budget) verify.parameter_budget = kStreamBudget;
  } else if (!options.inputs.empty()) {
    add_traces(options.inputs, verify.traces);
  }
  std::optional<StoredResult> baseline;  // read first: a run takes longer
  if (!options.baseline.empty()) baseline = read_result(options.baseline);
  std::optional<ResultWriter> writer;
  if (!options.out.empty()) writer.emplace(options.out);
  verify.hash_files = writer || baseline;
  std::string source_hash;
  if (!options.source.empty()) source_hash = folder_hash(options.source);
  verify.on_start = [&](VerifyResult& result) {
    if (!source_hash.empty()) result.hashes["source"] = source_hash;
    if (writer) writer->start(result, verify);
  };
  verify.on_layer = [&](const LayerResult& layer) {
    if (writer) writer->layer(layer);
  };
  Reproductions folders;
  if (!options.repro.empty()) {
    verify.on_wrong = [&](const LayerResult& layer, const Reproduction& r) {
      folders.emplace_back(layer.tap, write_reproduction(options.repro, layer, r, verify.backend, verify.pipeline).string());
    };
  }
  const RunsProfile profile(options.run.profile, verify.pipeline.threads);
  const VerifyResult result = verify_recording(find_manifest(options.model), verify);
  if (writer) writer->finish(result);
  progress.finish();
  if (!options.run.ledger.empty()) write_ledger(options, result);
  const std::optional<Comparison> comparison = baseline ? std::optional(compare_with(*baseline, result)) : std::nullopt;
  const Report report{result, options.model, progress.seconds(), folders, options.all};
  if (context.json) {
    Json json = to_json(report);
    if (comparison) json["baseline"] = to_json(*comparison);
    if (options.repro.empty()) json.erase("repro");
    if (result.ledger) json["weights"] = Json::parse(counts_json(*result.ledger));
    profile.add_to(json);
    fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
  } else {
    print_text(report);
    if (result.ledger) fmt::print("weights: {}", ledger_text(*result.ledger));
    if (comparison) print_text(*comparison);
    profile.print();
  }
  context.status = result.passed() && !(comparison && comparison->regressed()) ? 0 : 1;
}

}  // namespace

void add_verify(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "verify", "check every tap against PyTorch's values; exit 1 when anything is wrong",
                                "pycandle verify pycandle_trace");
  command.add_option("model", options->model, "a manifest, the folder of one, or a bundle").required();
  options->verify.backend = usual_backend("reference");
  command.add_option("--backend", options->verify.backend, "what is verified").suggests(backend_names()).shows_default();
  command
      .add_option("--against", options->verify.against,
                  "another backend: its values stand for PyTorch's, so a recording without goldens will do; onnxruntime, of an "
                  "ONNX file: it computes every value of the file")
      .suggests(backend_names_and(kOnnxRuntime));
  command.add_option("--set", options->sizes, "with --against onnxruntime: the size of an open axis, such as s0=4 (repeatable)");
  command.add_option("--seed", options->seed, "with --against onnxruntime: of the random inputs").shows_default();
  command.add_flag("--decode", options->decode,
                   "derive the decode step of a causal model and prove that it is the forward pass (docs/decoding.md)");
  command.add_option("--cache", options->cache, "with --decode: the dtype that rows of the cache are kept in")
      .one_of({"f32", "bf16", "f16"})
      .shows_default();
  command.add_flag("--all", options->all, "print every layer, not the summary alone");
  command.add_flag("--all-taps", options->verify.all_taps, "also those taps whose value another tap already shows");
  command.add_option(
      "--program", options->verify.program,
      "a program captured from source code (Compiled::save, or an emitted test that failed) in place of the recorded one");
  command.add_option("--trace", options->verify.traces,
                     "goldens of the same recording at other inputs (GoldenRecorder.add_goldens); repeatable");
  command.add_option(
      "--inputs", options->inputs,
      "a folder of such files, *_trace.safetensors: all of them; with --stream and --against onnxruntime a safetensors file of "
      "inputs by name");
  Option stream = command.add_flag("--stream", options->stream,
                                   "torch computes the goldens now, reading one layer's weights at a time (docs/meta-trace.md)");
  stream.excludes(command.get_option("--against"));
  stream.excludes(command.get_option("--trace"));
  command.add_option("--python", options->python, "the Python with torch for --stream, or with onnxruntime");
  add_budget_option(command, options->verify.parameter_budget);
  add_weights_options(command, options->run);
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
  add_profile_option(command, options->run.profile);
  command.callback([options, &context] { run_verify(*options, context); });
}

}  // namespace pycandle::cli
