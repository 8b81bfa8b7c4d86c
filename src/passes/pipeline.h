// The two pipelines. Each pass is a file, named, timed, dumped, verified, and can be disabled.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/weight_format.h"
#include "ir/op_def.h"

namespace pycandle {

// Which calls a backend runs itself. It may look at the op, the types, the attributes.
using Claims = std::function<bool(const Call&)>;

struct Pass {
  std::string name;                             // "fold-shapes"
  std::function<Program(Program, const OpTable&)> run;
  bool required = false;                        // cannot be disabled
};

enum class DumpMode { all, final };

struct PipelineOptions {
  std::set<std::string> disabled;               // an unknown name is a usage error that lists the known ones
  std::filesystem::path dump_dir;               // empty: no dumps; files are 00-import.ptir, 01-<pass>.ptir, …
  DumpMode dump_mode = DumpMode::all;           // final: only what each pipeline ends with
  bool verify = true;
  // Of the backend that compiles:
  int threads = 0;                              // 0: thread_count()
  WeightFormat weights = WeightFormat::f32;     // in which linear layers and embeddings read theirs
  bool pack_weights = true;                     // false: they are read where they lie, in half the memory
  std::map<std::string, std::string> overrides;  // functional → implementation: {"linear", "naive"} decomposes it
};

struct PassTiming {
  std::string name;
  double seconds;
  size_t nodes_before, nodes_after;
};

// Import or capture → canonicalise → fold scalars and shapes → recognise. Emission, inspect, taps and the round trip use this
// form.
Program run_program_pipeline(Program, const OpTable&, const PipelineOptions& = {}, std::vector<PassTiming>* = nullptr);
// For backends that want to be quick: what nobody looks at is not computed any more, so taps may be gone.
std::vector<Pass> optimising_passes();
// For backends whose kernels are of f32: what f16 and bf16 nodes compute is computed in f32 and rounded once.
Pass widening_pass();
// `first`, then: decomposes what the backend does not claim, and everything inside regions; then the backend's own passes.
Program run_backend_pipeline(Program, const OpTable&, const Claims& claims, const PipelineOptions& = {},
                             std::vector<PassTiming>* = nullptr, const std::vector<Pass>& own = {},
                             const std::vector<Pass>& first = {});
std::vector<std::string> pass_names();          // those that can be disabled

}  // namespace pycandle
