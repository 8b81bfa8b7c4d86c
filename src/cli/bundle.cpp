// pycandle bundle: a model, its decode step, weights and tokenizer as one folder or file, with what was proven of them.
#include "runtime/bundle.h"

#include <fmt/format.h>

#include "base/file.h"
#include "base/json.h"
#include "base/version.h"
#include "cli/command.h"
#include "cli/terminal.h"
#include "cli/weights.h"
#include "ops/core/catalogue.h"
#include "params/checksums.h"
#include "runtime/text_model.h"
#include "verify/hashes.h"
#include "verify/proven_step.h"
#include "verify/result_file.h"

namespace pycandle::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model, out, tokenizer, chat, generation, result;
  CheckpointRequest from;
  PipelineOptions pipeline;  // --weights, --threads
  bool single_file = false;
};

std::string text_of(const std::string& path) { return path.empty() ? "" : read_text(path); }

// A JSON file that is copied into the bundle: one that cannot be read should fail here, not where the bundle is opened.
std::string json_of(const std::string& path) {
  if (path.empty()) return "";
  std::string text = read_text(path);
  if (!parse_json(text, path).is_object()) throw Error(ErrorCode::bad_input, path + " is not an object");
  return text;
}

struct Proven {
  std::vector<std::string> capabilities{kForward, kTrace};
  std::optional<DecodeStep> step;
  std::string why_no_step;
  Json verification = Json::object();
};

// Only what the derived step is proven to compute makes a model a causal_lm. The proof is about the step, so it has the weights
// as recorded: rounding them changes the step and the forward pass alike.
void prove_step(const Model& model, const PipelineOptions& pipeline, Proven& proven) {
  const Program& p = model.program();
  try {
    proven.step = derive_decode_step(p, catalogue());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::gap) throw;
    proven.why_no_step = error.message();
    return;
  }
  DecodeProofOptions options{"cpu", pipeline, {1, 3, 16}, 24};
  options.pipeline.dump_dir.clear();
  options.pipeline.weights = WeightFormat::f32;
  const NamedArrays inputs = decode_inputs(model.recording(), *proven.step, options);
  const DecodeProof proof = prove_decoding(p, *proven.step, catalogue(), model.parameters(), inputs, options);
  refuse_wrong_step(proof, "there is no bundle");
  Json schedules = Json::array();
  for (const DecodeSchedule& s : proof.schedules)
    schedules.push_back({{"chunk", s.chunk}, {"judged", s.judged}, {"worst_floors", s.worst}, {"worst_tap", s.worst_value}});
  proven.verification["decode"] = {{"passed", true},
                                   {"backend", proof.backend},
                                   {"weights", "as recorded"},
                                   {"lengths", proof.lengths},
                                   {"schedules", schedules}};
  if (logits_output(p)) proven.capabilities.push_back(kCausalLm);
}

void prove_embedding(const Model& model, Proven& proven) {
  const auto found = embedding_model(model.program());
  if (!found || logits_output(model.program())) return;
  constexpr double kMost = 1e-3;  // f32 sums in another order; a mask that is none changes everything
  const double error = padding_error(model, *found);
  if (!(error < kMost)) return;
  proven.verification["embedding"] = {{"output", found->output}, {"mask", found->mask}, {"padding_error", error}};
  proven.capabilities.push_back(kEmbedding);
}

// A result of `verify --out` that is about this recording and found nothing wrong.
Json verified_layers(const std::string& path, const Recording& recording, const std::string& model) {
  if (path.empty()) return Json();
  const StoredResult result = read_result(path);
  const auto now = recording_hashes(recording, find_manifest(model), recording.traces());
  for (const char* what : {"manifest", "weights"}) {
    const auto then = result.hashes.find(what), here = now.find(what);
    if (then == result.hashes.end() || here == now.end() || then->second != here->second)
      throw Error(ErrorCode::bad_input, fmt::format("{} is about another {}", path, what)).hint("pycandle verify M --out FILE");
  }
  size_t wrong = 0;
  for (const StoredLayer& layer : result.layers)
    wrong += layer.verdict == Verdict::wrong_here || layer.verdict == Verdict::wrong_upstream;
  if (wrong > 0) throw Error(ErrorCode::verdict, fmt::format("{} layers of {} are wrong", wrong, path));
  return {{"backend", result.backend}, {"layers", result.layers.size()}, {"hashes", result.hashes}};
}

Json provenance(const Model& model, const Options& options) {
  const Recording& r = model.recording();
  Json json = {{"pycandle", version()},
               {"recorded_with", {{"torch", r.torch_version}, {"manifest", r.version}}},
               {"manifest", file_hash(find_manifest(options.model))}};
  if (!options.from.checkpoint.empty()) json["checkpoint"] = options.from.checkpoint.filename().string();
  return json;
}

void refuse_to_replace(const fs::path& out) {
  if (!fs::exists(out) || is_bundle(out)) return;
  throw Error(ErrorCode::usage, fmt::format("{} is there and is not a bundle", out.string()))
      .hint("name another --out, or remove it");
}

void print_made(const Options& options, const Model& made, const Proven& proven, double seconds) {
  const Bundle& bundle = *made.recording().bundle;
  uint64_t bytes = 0;
  for (const auto& [name, w] : bundle.table) bytes += w.bytes;
  fmt::print("{} · {} · {:.1f} s\n", styled(made.program().name, Style::bold), options.out, seconds);
  Table table;
  table.row({"capabilities", fmt::format("{}", fmt::join(bundle.capabilities, ", "))});
  table.row({"weights", fmt::format("{} in {} ({} tensors)", human_bytes(static_cast<double>(bytes)), name_of(bundle.weights),
                                    bundle.table.size())});
  table.row({"decode step", proven.step ? fmt::format("proven: {} nodes", proven.step->step.graph.nodes.size())
                                        : "none: " + proven.why_no_step});
  if (bundle.archive.contains(kBundleTokenizer))
    table.row({"tokenizer", fmt::format("{} tokens", bundled_tokenizer(made).vocabulary_size())});
  fmt::print("{}", table.text());
}

void run_bundle(const Options& options, Context& context) {
  refuse_to_replace(options.out);
  Progress progress("bundle");
  LoadOptions load{"cpu", options.pipeline};
  load.pipeline.weights = WeightFormat::f32;  // the bundle rounds them
  if (!options.from.checkpoint.empty()) load.checkpoint = options.from;
  load.check_weights = options.from.checkpoint.empty();
  const Model model = open_model(options.model, load);
  if (model.recording().bundle)
    throw Error(ErrorCode::usage, "this is a bundle already").expected("a recording").found(options.model);
  Proven proven;
  BundleParts parts{model.recording(), model.parameters()};
  parts.tokenizer = text_of(options.tokenizer);
  if (!parts.tokenizer.empty()) Tokenizer::from_text(parts.tokenizer);
  parts.chat = json_of(options.chat);
  parts.generation = json_of(options.generation);
  const Json layers = verified_layers(options.result, model.recording(), options.model);
  prove_step(model, options.pipeline, proven);
  prove_embedding(model, proven);
  if (!layers.is_null()) proven.verification["layers"] = layers;
  proven.verification["by"] = version();
  parts.step = proven.step ? &*proven.step : nullptr;
  parts.weights = options.pipeline.weights;
  parts.capabilities = proven.capabilities;
  parts.provenance = provenance(model, options).dump();
  parts.verification = proven.verification.dump();
  write_bundle(options.out, options.single_file ? ArchiveWriter::Form::file : ArchiveWriter::Form::folder, parts, catalogue());
  const Model made = open_model(options.out, {"cpu", {}});
  refuse_damaged_weights(made.recording(), *made.parameters());
  progress.finish();
  if (!context.json) return print_made(options, made, proven, progress.seconds());
  fmt::print("{}\n", Json{{"status", "fine"},
                          {"name", made.program().name},
                          {"out", options.out},
                          {"weights", name_of(made.recording().bundle->weights)},
                          {"capabilities", proven.capabilities},
                          {"no_decode_step", proven.why_no_step},
                          {"verification", proven.verification},
                          {"seconds", progress.seconds()}}
                         .dump(2));
}

}  // namespace

void add_bundle(Command& app, Context& context) {
  auto options = std::make_shared<Options>();
  Command command = add_command(app, context, "bundle",
                                "a model with all that running it needs: program, decode step, weights, tokenizer, proofs",
                                "pycandle bundle pycandle_trace --tokenizer tokenizer.json --weights int8 --out model.pycandle");
  command.add_option("model", options->model, "a manifest, or the folder of one").required();
  command.add_option("--out", options->out, "the folder that is written, or with --single-file the file").required();
  command.add_flag("--single-file", options->single_file, "one file, its tensors aligned to 64 bytes");
  command.add_option("--tokenizer", options->tokenizer, "a Hugging Face tokenizer.json");
  command.add_option("--tokenizer-config", options->chat, "a tokenizer_config.json: the chat template and the special tokens");
  command.add_option("--generation-config", options->generation,
                     "a generation_config.json: the end tokens, and the first token of an encoder-decoder model");
  command.add_option("--result", options->result, "what pycandle verify --out found of this recording: kept as its verification");
  add_checkpoint_options(command, options->from);
  add_backend_options(command, options->pipeline);
  add_pipeline_options(command, options->pipeline);
  command.callback([options, &context] { run_bundle(*options, context); });
}

}  // namespace pycandle::cli
