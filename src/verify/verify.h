// Is the program right, and is the backend right? Tap by tap, from golden inputs. docs/verification.md has the method.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "runtime/model.h"

namespace pycandle {

struct Metrics {
  double max_abs = 0, rms = 0, mse = 0, cosine = 1;
  double max_rel = 0;                    // to |expected|, or to a thousandth of its RMS where it is smaller than that
  int64_t differing = 0;                 // elements that are not equal
  int64_t nan_mismatches = 0;            // NaN or infinity on one side only, or infinities of different sign
  int64_t first_difference = -1;         // flat index
};
Metrics compare(const Array& got, const Array& expected);

enum class Verdict { exact, within_rounding, wrong_here };
const char* to_string(Verdict);          // "exact", "within rounding", "wrong here"

struct LayerResult {
  std::string tap, op, place, source;    // place: file:line
  std::string path;                      // module and call: "transformer.h.3.mlp@0"; the root is ""
  std::string dtype;
  Sizes shape;
  Metrics metrics;                       // ours against the golden, from golden inputs (local)
  double error_rms = 0, error_max = 0;   // what was judged …
  double floor_rms = 0, floor_max = 0;   // … against what (before the factors 4 and 16)
  std::string judged;                    // "program" or "backend": which question failed, or "both" when fine
  Verdict verdict = Verdict::exact;
  std::string why;                       // one sentence when wrong
};

struct VerifyOptions {
  std::string backend = "reference";
  bool all_taps = false;                 // also print/keep taps whose value another tap already shows
  std::filesystem::path trace;           // another golden file of the same recording; empty: the manifest's
  const OpTable* table = nullptr;        // null: the catalogue
  PipelineOptions pipeline;
  std::function<void(size_t done, size_t total)> progress;
};

// A tap with a golden that was not judged.
struct SkippedTap {
  std::string tap, why;
};

// One run from the golden inputs to the end: errors add up on the way, so this is information and no verdict.
struct OutputError {
  std::string name;
  Metrics metrics;
};

struct VerifyResult {
  std::string name, backend;
  std::vector<LayerResult> layers;       // in the order in which the program computes them
  std::vector<SkippedTap> skipped;
  std::vector<OutputError> outputs;      // those with a golden
  int exact = 0, within_rounding = 0, wrong = 0;
  bool passed() const { return wrong == 0 && !layers.empty(); }
};

VerifyResult verify_recording(const std::filesystem::path& manifest, const VerifyOptions& = {});

}  // namespace pycandle
