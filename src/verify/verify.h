// Is the program right, and is the backend right? Tap by tap, from golden inputs. docs/verification.md has the method.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/model.h"
#include "verify/judging/layer_judge.h"

namespace pycandle {

struct VerifyResult;

struct VerifyOptions {
  std::string backend = "reference";
  std::string against;                   // another backend whose values stand for PyTorch's; empty: PyTorch's do
  std::string goldens_by = {};            // who computed the goldens, where that was not PyTorch
  const Backend* backend_object = nullptr;  // instead of one by its name
  bool all_taps = false;                 // also print/keep taps whose value another tap already shows
  std::filesystem::path program;         // captured from source code (Compiled::save): judged in place of the recorded one
  std::vector<std::filesystem::path> traces;  // other golden files of the same recording; none: the manifest's
  std::optional<Tolerance> tolerance;    // decides instead of the rounding floor
  const OpTable* table = nullptr;        // null: the catalogue
  PipelineOptions pipeline;
  std::optional<size_t> parameter_budget = {};  // most bytes of weights in memory
  std::optional<CheckpointRequest> checkpoint = {};  // weights from here, not from the recording's files
  std::function<void(size_t done, size_t total)> progress;
  int diagnoses = 8;                     // of how many wrong layers the op and the cause are looked for
  OnWrongLayer on_wrong;                 // for each of those, before on_layer
  std::function<void(Program&)> change_program;  // after import, before any pass: for tests of the verifier
  bool hash_files = false;               // fills VerifyResult::hashes
  std::function<void(VerifyResult&)> on_start;  // once name, backend and hashes are known: the place to add a hash
  // As soon as it is judged; a layer that may be without evidence once every input has been seen.
  std::function<void(const LayerResult&)> on_layer;
};

// A tap with a golden that was not judged.
struct SkippedTap {
  TapId tap;
  std::string why;
};

// One run from the golden inputs to the end: errors add up on the way, so this is information and no verdict.
struct OutputError {
  std::string name;
  Metrics metrics;
  std::string input = {};                // which goldens, when there are several
};

struct VerifyResult {
  std::string name, backend, against;    // against: empty, or whose values stand for PyTorch's
  std::shared_ptr<const Ledger> ledger;  // of options.checkpoint
  std::map<std::string, std::string> hashes;  // of manifest, weights, goldens, library; empty unless asked for
  size_t planned = 0;                    // values to judge, known before the first layer
  std::vector<LayerResult> layers;       // in the order in which the program computes them
  std::vector<SkippedTap> skipped;
  std::vector<std::string> damaged;      // parameters whose bytes are not the recorded ones, by checksum
  std::vector<OutputError> outputs;      // those with a golden, and what the states became
  std::string why_none;                  // one sentence when nothing was judged
  bool has_nothing_to_judge = false;     // every value is given, or drawn at random: nothing can be wrong but its type
  int count(Verdict) const;
  int wrong() const { return count(Verdict::wrong_here); }
  bool proves_nothing() const;           // outputs were judged, and of none there is evidence
  bool passed() const;
};

VerifyResult verify_recording(const std::filesystem::path& manifest, const VerifyOptions& = {});

}  // namespace pycandle
