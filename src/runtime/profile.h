// Where the time of a run goes: by layer, op and kernel, beside what the machine can do; and what came before the run.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "backends/placed.h"
#include "backends/step_log.h"
#include "base/json.h"
#include "runtime/machine.h"
#include "runtime/model.h"

namespace pycandle {

struct ProfiledStep {
  std::string kernel, op, layer;
  double start, seconds, work, bytes;
  size_t times = 1;  // of a profile of several runs: how often it ran
};

struct Profile {
  std::vector<ProfiledStep> steps;
  double seconds = 0;  // the whole run, or all steps of several
  int threads = 1;
  MachinePeaks peaks;
  std::vector<PassTiming> passes;
  ExecutableUse use;
  std::vector<PlacedBuffer> places;
  size_t peak_memory = 0;  // of the process

  double accounted() const;  // the share of the run that its steps took
  double evaluated() const;  // of those on the reference's evaluators: what has no kernel
};

// The quickest of several runs, after one that plans.
Profile profile(const Model&, const Model::Tensors& inputs, int threads);
Profile profile_of(const StepLog&, int threads);
Json to_json(const Profile&);
// Chrome's trace format: chrome://tracing or ui.perfetto.dev show it.
void write_chrome_trace(const Profile&, const std::filesystem::path&);

struct StepSum {
  double seconds = 0, work = 0, bytes = 0;
  double multiplied = 0;  // the seconds of steps whose work is multiply-adds
  size_t steps = 0;
  double gflops() const { return multiplied > 0 ? 2 * work / multiplied / 1e9 : 0; }
  double gbs() const { return seconds > 0 ? bytes / seconds / 1e9 : 0; }
};
using StepSums = std::vector<std::pair<std::string, StepSum>>;  // the longest first
StepSums by_kernel(const Profile&);
StepSums by_op(const Profile&);
StepSums by_layer(const Profile&);

}  // namespace pycandle
