#include "passes/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/passes.h"
#include "passes/plain_convolutions.h"

namespace pycandle {
namespace {

// What every program goes through, whatever becomes of it.
std::vector<Pass> program_passes() {
  return {
      {"canonicalise", canonicalise},
      {"fold-scalars", fold_scalars},
      {"fold-shapes", fold_shapes},
      {"attention-scores", attention_scores},
      {"recognise", recognise},
      {"canonicalise", canonicalise},          // again: what is recognised may take its operands transposed
      {"recognise-masks", recognise_masks},
      {"recognise-linear", recognise_linear},
      {"recognise-heads", recognise_heads},
      {"recognise-linear", recognise_linear},  // again: moving heads leaves transposes around it
      {"recognise-split", recognise_split},
      {"recognise-heads", recognise_heads},    // once more, so that a program in this form stays as it is
      {"recognise-linear", recognise_linear},
      {"usual-scale", usual_scale},
      {"remove-unused", remove_unused},
  };
}

// What a backend needs on top of that.
std::vector<Pass> backend_passes(const Claims& claims, const std::vector<Pass>& own, const std::vector<Pass>& first,
                                 WeightFormat weights) {
  std::vector<Pass> passes = first;
  if (weights != WeightFormat::f32) {
    passes.push_back({"narrow-weights",
                      [weights](Program p, const OpTable& table) { return narrow_weights(std::move(p), table, weights); }, true});
  }
  passes.push_back(
      {"decompose", [claims](Program p, const OpTable& table) { return decompose(std::move(p), table, claims); }, true});
  passes.insert(passes.end(), own.begin(), own.end());
  passes.push_back({"remove-unused", remove_unused});
  return passes;
}

void check_disabled(const PipelineOptions& options) {
  const std::vector<std::string> known = pass_names();
  for (const std::string& name : options.disabled) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw Error(ErrorCode::usage, fmt::format("there is no pass {} that could be disabled", name))
        .expected(fmt::format("one of {}", fmt::join(known, ", ")))
        .found(name);
  }
}

void dump(const Program& p, const PipelineOptions& options, size_t number, const std::string& name) {
  std::error_code failure;
  std::filesystem::create_directories(options.dump_dir, failure);
  if (failure) {
    throw Error(ErrorCode::usage, "the folder for dumps cannot be made")
        .found(fmt::format("{}: {}", options.dump_dir.string(), failure.message()));
  }
  write_text(options.dump_dir / fmt::format("{:02}-{}.ptir", number, name), print(p));
}

// `start` is the number and name under which the program comes in; each pass has the number after the one before it.
Program run(Program p, const OpTable& table, const std::vector<Pass>& passes, size_t start_number, const char* start_name,
            const PipelineOptions& options, std::vector<PassTiming>* timings) {
  using Clock = std::chrono::steady_clock;
  check_disabled(options);
  const bool dump_all = !options.dump_dir.empty() && options.dump_mode == DumpMode::all;
  const bool comes_from_outside = start_number == 0;
  if (options.verify && comes_from_outside) verify(p, start_name);
  if (dump_all && comes_from_outside) dump(p, options, start_number, start_name);

  size_t number = start_number;
  std::string last_name = start_name;
  for (const Pass& pass : passes) {
    ++number;
    if (!pass.required && options.disabled.count(pass.name) != 0) continue;
    const size_t nodes_before = p.graph.nodes.size();
    const Clock::time_point begin = Clock::now();
    p = pass.run(std::move(p), table);
    const std::chrono::duration<double> seconds = Clock::now() - begin;
    if (timings) timings->push_back({pass.name, seconds.count(), nodes_before, p.graph.nodes.size()});
    if (options.verify) verify(p, pass.name);
    if (dump_all) dump(p, options, number, pass.name);
    last_name = pass.name;
  }
  if (!options.dump_dir.empty() && !dump_all) dump(p, options, number, last_name);
  return p;
}

}  // namespace

Program run_program_pipeline(Program p, const OpTable& table, const PipelineOptions& options, std::vector<PassTiming>* timings) {
  return run(std::move(p), table, program_passes(), 0, "import", options, timings);
}

std::vector<Pass> optimising_passes() {
  return {{"plain-convolutions", plain_convolutions},
          {"push-slices", push_slices},
          {"remove-unused", remove_unused},
          {"join-linears", join_linears}};
}

Pass widening_pass() { return {"widen-halves", widen_halves}; }

Program run_backend_pipeline(Program p, const OpTable& table, const Claims& claims, const PipelineOptions& options,
                             std::vector<PassTiming>* timings, const std::vector<Pass>& own, const std::vector<Pass>& first) {
  return run(std::move(p), table, backend_passes(claims, own, first, options.weights), program_passes().size(), "program",
             options, timings);
}

std::vector<std::string> pass_names() {
  std::vector<std::string> names;
  for (const std::vector<Pass>& passes :
       {program_passes(), backend_passes({}, optimising_passes(), {widening_pass()}, WeightFormat::f32)}) {
    for (const Pass& pass : passes) {
      const bool listed = std::find(names.begin(), names.end(), pass.name) != names.end();
      if (!pass.required && !listed) names.push_back(pass.name);
    }
  }
  return names;
}

}  // namespace pycandle
