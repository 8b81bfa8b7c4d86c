// What forward and trace share: which model, which inputs.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "pycandle/tokenizer.h"
#include "runtime/model.h"

namespace pycandle::cli {

struct RunOptions {
  std::string model, inputs, out, tokenizer, prompt;
  std::vector<std::string> sizes;
  uint64_t seed = 0;
  bool timing = false, profile = false, tune = false;
  std::string profile_out, ledger;
  CheckpointRequest from;              // --checkpoint; its path is empty: the recording's own weights
  LoadOptions load;
};

// Which model, on which backend, with which weights.
void add_model_options(Command&, RunOptions&);
// The same, and which inputs.
void add_run_options(Command&, RunOptions&);
// --checkpoint and what goes with it; a usage error for its options without it.
std::optional<CheckpointRequest> checkpoint_of(const RunOptions&);
// --checkpoint, --map, --lora, --section, --strict, --ledger.
void add_weights_options(Command&, RunOptions&);
// The model with its weights; --ledger is written.
Model load_for(const RunOptions&);
// The tensors of --inputs, the tokens of --prompt, or random ones from --seed at the sizes of --set.
Model::Tensors inputs_for(const Model&, const RunOptions&);
// Of --tokenizer (a tokenizer.json, or a folder with one), or the bundle's.
Tokenizer tokenizer_for(const Model&, const RunOptions&);
void add_tune_option(Command&, RunOptions&);
// A usage error for --override or --tune on a backend that has nothing to choose.
void refuse_choices_without_effect(const std::string& backend, const PipelineOptions&, bool tune = false);
// With --tune: fills in the overrides that were not given. Refuses choices without effect.
void tune_if_asked(RunOptions&);
void print_timings(const std::vector<PassTiming>&);

}  // namespace pycandle::cli
