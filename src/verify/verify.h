// Is the program right, and is the backend right? Tap by tap, from golden inputs. docs/verification.md has the method.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime/model.h"
#include "verify/metrics.h"

namespace pycandle {

// From best to worst.
enum class Verdict {
  exact,
  within_rounding,
  within_tolerance,       // only with --atol or --rtol: fine by those
  accumulated_rounding,   // right from golden inputs; the whole run's error is more than one layer's rounding
  reference_unstable,     // rounding alone moves half of the digits: the golden proves little
  wrong_upstream,         // right from golden inputs, and wrong in the whole run because of a layer before it
  wrong_here
};
inline constexpr Verdict kVerdicts[] = {Verdict::exact,
                                        Verdict::within_rounding,
                                        Verdict::within_tolerance,
                                        Verdict::accumulated_rounding,
                                        Verdict::reference_unstable,
                                        Verdict::wrong_upstream,
                                        Verdict::wrong_here};
const char* to_string(Verdict);          // "exact", "within rounding", …
std::optional<Verdict> verdict_from_text(std::string_view);

// What is known of a layer that is wrong here.
struct Diagnosis {
  std::string op;                        // the smallest part that is wrong: one op, or a few that are wrong together
  std::string path, place, source;       // where that stands
  std::string pass;                      // the pass without which it is right; empty: none, or it was not looked for
  std::string cause;                     // "looks like … where the model uses …", or why nothing is said
  std::string cause_kind;                // "epsilon"; empty when no single cause fits
  std::string code = {}, code_source = {};  // where that stands in C++, for a captured program
};

struct LayerResult {
  std::string input;                     // which goldens, when there are several
  std::string tap, op, place, source;    // place: file:line
  std::string path;                      // module and call: "transformer.h.3.mlp@0"; the root is ""
  std::string dtype;
  Sizes shape;
  Metrics metrics;                       // ours against the golden, from golden inputs (local)
  std::optional<Metrics> cumulative;     // the same in one run of the whole program; a fused kernel may hide the value
  double error_rms = 0, error_max = 0;   // what was judged …
  double floor_rms = 0, floor_max = 0;   // … against what (before the factors 4 and 16)
  std::string judged;                    // "program", "backend" or "tolerance": what failed, or "both" when fine
  Verdict verdict = Verdict::exact;
  std::string why;                       // one sentence when it is not plainly fine
  std::string decisions;                 // of argmax, topk and sort: how many, and by what margin
  std::optional<Diagnosis> diagnosis;    // when wrong here
  std::string code, code_source;         // place and source in C++, for a captured program
};

// The smallest program that shows what is wrong.
struct Reproduction {
  const Program& program;                // one output; parameters by name
  const std::vector<Array>& inputs;
  const ParameterSource& parameters;
  const Bindings& sizes;
  const Array &expected, &got;
};

struct VerifyResult;

struct Tolerance {
  double atol = 0, rtol = 0;             // |ours - golden| <= atol + rtol * |golden|
};

struct VerifyOptions {
  std::string backend = "reference";
  std::string against;                   // another backend whose values stand for PyTorch's; empty: PyTorch's do
  const Backend* backend_object = nullptr;  // instead of one by its name
  bool all_taps = false;                 // also print/keep taps whose value another tap already shows
  std::filesystem::path program;         // captured from source code (Compiled::save): judged in place of the recorded one
  std::vector<std::filesystem::path> traces;  // other golden files of the same recording; none: the manifest's
  std::optional<Tolerance> tolerance;    // decides instead of the rounding floor
  const OpTable* table = nullptr;        // null: the catalogue
  PipelineOptions pipeline;
  std::function<void(size_t done, size_t total)> progress;
  int diagnoses = 8;                     // of how many wrong layers the op and the cause are looked for
  std::function<void(const LayerResult&, const Reproduction&)> on_wrong;  // for each of those, before on_layer
  std::function<void(Program&)> change_program;  // after import, before any pass: for tests of the verifier
  bool hash_files = false;               // fills VerifyResult::hashes
  std::function<void(VerifyResult&)> on_start;  // once name, backend and hashes are known: the place to add a hash
  std::function<void(const LayerResult&)> on_layer;   // as soon as it is judged
};

// A tap with a golden that was not judged.
struct SkippedTap {
  std::string tap, why;
};

// One run from the golden inputs to the end: errors add up on the way, so this is information and no verdict.
struct OutputError {
  std::string name;
  Metrics metrics;
  std::string input = {};                // which goldens, when there are several
};

struct VerifyResult {
  std::string name, backend, against;    // against: empty, or the backend whose values stand for PyTorch's
  std::map<std::string, std::string> hashes;  // of manifest, weights, goldens, library; empty unless asked for
  std::vector<LayerResult> layers;       // in the order in which the program computes them
  std::vector<SkippedTap> skipped;
  std::vector<std::string> damaged;      // parameters whose bytes are not the recorded ones, by checksum
  std::vector<OutputError> outputs;      // those with a golden, and what the states became
  std::string why_none;                  // one sentence when nothing was judged
  bool has_nothing_to_judge = false;     // every value is given, or drawn at random: nothing can be wrong but its type
  int count(Verdict) const;
  int wrong() const { return count(Verdict::wrong_here); }
  bool passed() const { return wrong() == 0 && damaged.empty() && (!layers.empty() || has_nothing_to_judge); }
};

VerifyResult verify_recording(const std::filesystem::path& manifest, const VerifyOptions& = {});

}  // namespace pycandle
