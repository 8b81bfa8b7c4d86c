#include "cli/running.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/file.h"
#include "base/safetensors.h"
#include "cli/terminal.h"
#include "cli/weights.h"
#include "generate/sequences.h"
#include "ops/core/catalogue.h"
#include "runtime/backends.h"
#include "runtime/bundle.h"
#include "runtime/tune.h"

namespace pycandle::cli {

void add_run_options(Command& command, RunOptions& options) {
  add_model_options(command, options);
  Option inputs = command.add_option("--inputs", options.inputs,
                                     "a safetensors file with a tensor for each input, under its name");
  command.add_option("--seed", options.seed, "seed of the random inputs").shows_default().excludes(inputs);
  command.add_option("--set", options.sizes, "size of a dynamic dim of the random inputs, such as s0=4 (repeatable)")
      .excludes(inputs);
  command.add_option("--prompt", options.prompt, "a text whose tokens the model reads").excludes(inputs);
  command.add_option("--tokenizer", options.tokenizer, "with --prompt: a tokenizer.json, when the model is no bundle with one");
  command.add_option("--out", options.out, "write the tensors to this safetensors file");
}

void add_model_options(Command& command, RunOptions& options) {
  command.add_option("model", options.model, "a manifest, the folder of one, or a bundle").required();
  command.add_option("--backend", options.load.backend, "what runs the program; PYCANDLE_BACKEND otherwise")
      .suggests(backend_names())
      .shows_default();
  command
      .add_option_function(
          "--memory",
          [&options](const std::vector<std::string>& words) { options.load.pipeline.pack_weights = words.back() == "fast"; },
          "fast: weights are packed for the cpu backend's kernels (default); small: read where they lie, in half the memory")
      .one_of({"fast", "small"});
  add_budget_option(command, options.load.parameter_budget);
  add_weights_options(command, options);
  command.add_flag("--check-weights", options.load.check_weights, "compare the weights with their checksums first");
  command.add_flag("--timing", options.timing, "show how long each pass took");
  add_backend_options(command, options.load.pipeline);
  add_pipeline_options(command, options.load.pipeline);
}

void add_weights_options(Command& command, RunOptions& options) {
  add_checkpoint_options(command, options.from);
  command.add_option("--ledger", options.ledger, "write what became of each tensor and parameter to this JSON file");
}

std::optional<CheckpointRequest> checkpoint_of(const RunOptions& options) {
  const CheckpointRequest& from = options.from;
  if (!from.checkpoint.empty()) return from;
  if (!from.rules.empty() || !from.adapter.empty() || from.reading.section || from.strict)
    throw Error(ErrorCode::usage, "--map, --lora, --section and --strict say how a checkpoint is read")
        .expected("--checkpoint FILE with them");
  return std::nullopt;
}

namespace {

LoadOptions with_checkpoint(const RunOptions& options) {
  LoadOptions load = options.load;
  load.checkpoint = checkpoint_of(options);
  if (load.checkpoint && load.check_weights)
    throw Error(ErrorCode::usage, "--check-weights compares the recording's own weights, not those of --checkpoint");
  return load;
}

}  // namespace

Model load_for(const RunOptions& options) {
  Model model = open_model(options.model, with_checkpoint(options));
  if (!options.ledger.empty()) write_text(options.ledger, to_json(model.ledger()) + "\n");
  return model;
}

Tokenizer tokenizer_for(const Model& model, const RunOptions& options) {
  namespace fs = std::filesystem;
  if (options.tokenizer.empty()) return bundled_tokenizer(model);
  return Tokenizer::from_file(fs::is_directory(options.tokenizer) ? fs::path(options.tokenizer) / "tokenizer.json"
                                                                  : fs::path(options.tokenizer));
}

namespace {

Model::Tensors tokens_of_prompt(const Model& model, const RunOptions& options) {
  if (!options.sizes.empty()) throw Error(ErrorCode::usage, "--set gives sizes to random inputs, and --prompt has its own");
  std::vector<int64_t> ids;
  for (const TokenId id : tokenizer_for(model, options).encode(options.prompt).ids) ids.push_back(id);
  if (ids.empty()) throw Error(ErrorCode::usage, "the prompt has no tokens").found(options.prompt);
  return token_inputs(model.program(), store(DType::i64, {1, static_cast<int64_t>(ids.size())}, ids));
}

}  // namespace

Model::Tensors inputs_for(const Model& model, const RunOptions& options) {
  if (!options.prompt.empty()) return tokens_of_prompt(model, options);
  if (!options.tokenizer.empty()) throw Error(ErrorCode::usage, "--tokenizer reads a --prompt, and there is none");
  if (options.inputs.empty()) return random_inputs(model.program(), options.seed, parse_sizes(options.sizes));
  const Safetensors file = Safetensors::open(options.inputs);
  Model::Tensors tensors;
  for (const auto& [name, entry] : file.entries()) tensors[name] = file.get(name);
  return tensors;
}

void add_tune_option(Command& command, RunOptions& options) {
  command.add_flag("--tune", options.tune,
                   "measure which way of running each functional is the quickest here (once a machine), and take it");
}

void refuse_choices_without_effect(const std::string& backend, const PipelineOptions& options, bool tune) {
  if (options.overrides.empty() && !tune) return;
  const auto& ops = catalogue().all();
  const Backend& chosen = find_backend(backend);
  if (std::any_of(ops.begin(), ops.end(), [&](const auto& op) { return !chosen.implementations(op->name).empty(); })) return;
  throw Error(ErrorCode::usage, fmt::format("{} has no effect on the {} backend", tune ? "--tune" : "--override", backend))
      .expected("a backend that runs functionals in several ways: --backend cpu");
}

void tune_if_asked(RunOptions& options) {
  refuse_choices_without_effect(options.load.backend, options.load.pipeline, options.tune);
  if (!options.tune) return;
  LoadOptions load = with_checkpoint(options);
  load.pipeline.dump_dir.clear();
  load.pipeline.overrides.merge(tuned_overrides(options.model, load, [&](const Model& m) { return inputs_for(m, options); }));
  options.load.pipeline.overrides = load.pipeline.overrides;
}

void print_timings(const std::vector<PassTiming>& timings) {
  Table table;
  for (const PassTiming& pass : timings) {
    table.row({pass.name, fmt::format("{:.1f} ms", pass.seconds * 1e3),
               fmt::format("{} → {} nodes", pass.nodes_before, pass.nodes_after)});
  }
  fmt::print("{}", table.text());
}

}  // namespace pycandle::cli
