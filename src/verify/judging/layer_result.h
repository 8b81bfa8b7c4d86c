// What is said of one layer: its verdict, what that rests on, and, when it is wrong, what is known of the mistake.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/op_def.h"
#include "ir/tap_id.h"
#include "params/parameters.h"
#include "verify/judging/difference.h"
#include "verify/judging/metrics.h"

namespace pycandle {

// From best to worst.
enum class Verdict {
  exact,
  within_rounding,
  within_tolerance,       // only with --atol or --rtol: fine by those
  accumulated_rounding,   // right from golden inputs; the whole run's error is more than one layer's rounding
  reference_unstable,     // rounding alone moves half of the digits, or decides between values
  no_evidence,            // equal, and a wrong program would be so too: all zero, saturated, rounding alone
  wrong_upstream,         // right from golden inputs, and wrong in the whole run because of a layer before it
  wrong_here
};
inline constexpr Verdict kVerdicts[] = {Verdict::exact,
                                        Verdict::within_rounding,
                                        Verdict::within_tolerance,
                                        Verdict::accumulated_rounding,
                                        Verdict::reference_unstable,
                                        Verdict::no_evidence,
                                        Verdict::wrong_upstream,
                                        Verdict::wrong_here};
const char* to_string(Verdict);          // "exact", "within rounding", …
std::optional<Verdict> verdict_from_text(std::string_view);

// Which question a verdict answers: what failed, or both when the layer is fine.
enum class Judged { both, program, backend, tolerance };
const char* to_string(Judged);           // "both", …

// What is known of a layer that is wrong here.
struct Diagnosis {
  std::string op;                        // the smallest part that is wrong: one op, or a few that are wrong together
  std::string path, place, source;       // where that stands
  std::string pass;                      // the pass without which it is right; empty: none, or it was not looked for
  std::string cause;                     // "looks like … where the model uses …", or why nothing is said
  std::string cause_kind;                // "epsilon"; empty when no single cause fits
  std::string code = {}, code_source = {};  // where that stands in C++, for a captured program
  std::string parameter = {};            // whose values in the file are others than the model's
};

struct LayerResult {
  std::string input;                     // which goldens, when there are several
  TapId tap;
  std::string op, place, source;         // place: file:line
  std::string path;                      // module and call: "transformer.h.3.mlp@0"; the root is ""
  std::string dtype;
  Sizes shape;
  Metrics metrics;                       // ours against the golden, from golden inputs (local)
  DifferencePicture picture;             // of the same two
  std::optional<Metrics> cumulative;     // the same in one run of the whole program; a fused kernel may hide the value
  double error_rms = 0, error_max = 0;   // what was judged …
  double floor_rms = 0, floor_max = 0;   // … against what (before the factors 4 and 16)
  // With --weights, of a layer that has some: how far rounding them moves its value, relative to the value's size.
  std::optional<double> weight_rounding;
  Judged judged = Judged::both;
  Verdict verdict = Verdict::exact;
  std::string why;                       // one sentence when it is not plainly fine
  std::string vacuous;                   // why being right at this input proves nothing; empty: it does
  bool is_output = false;                // of the model, or what a state became
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
// Called for a wrong layer once its diagnosis is known.
using OnWrongLayer = std::function<void(const LayerResult&, const Reproduction&)>;

}  // namespace pycandle
