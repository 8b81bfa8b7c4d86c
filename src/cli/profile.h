// Where the time of a run goes: by layer, op and kernel, beside what the machine can do; and what came before the run.
#pragma once

#include <filesystem>
#include <string>

#include "backends/placed.h"
#include "base/json.h"
#include "runtime/machine.h"
#include "runtime/model.h"

namespace pycandle::cli {

struct ProfiledStep {
  std::string kernel, op, layer;
  double start, seconds, work, bytes;
};

struct Profile {
  std::vector<ProfiledStep> steps;
  double seconds = 0;  // the whole run
  int threads = 1;
  MachinePeaks peaks;
  std::vector<PassTiming> passes;
  ExecutableUse use;
  std::vector<PlacedBuffer> places;
  size_t peak_memory = 0;  // of the process

  double accounted() const;  // the share of the run that its steps took
};

// The quickest of several runs, after one that plans.
Profile profile(const Model&, const Model::Tensors& inputs, int threads);
std::string to_text(const Profile&);
Json to_json(const Profile&);
// Chrome's trace format: chrome://tracing or ui.perfetto.dev show it.
void write_chrome_trace(const Profile&, const std::filesystem::path&);

}  // namespace pycandle::cli
