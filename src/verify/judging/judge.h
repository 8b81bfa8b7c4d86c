// One value: the golden, ours, and the reference runs from the same golden inputs. docs/judging.md has the method.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/array.h"
#include "verify/judging/metrics.h"

namespace pycandle {

struct Evidence {
  Array golden, ours;
  std::string whose = "PyTorch";  // the golden
  Array rounded, f64;            // the reference at the program's dtypes, and without rounding
  std::vector<Array> jittered;   // with every primitive moved by what its rounding may be
  std::vector<Array> as_kernels; // of f16 and bf16: jittered as kernels for them err (half_precision.h)
};

struct Judgement {
  bool passed = true;
  double error_rms = 0, error_max = 0, floor_rms = 0, floor_max = 0;
  double scale = 0;              // RMS of the program's exact value
  std::string why;               // when it failed
  bool rounds_more = false;      // it failed because the program rounds to a smaller float, and the model does not
};

// The program's exact value, and how far rounding alone may be from it, element by element: |witness - exact| of each run
// that shows it. The floor of a group of elements is the largest RMS of a witness there, and at least u times the group's own.
struct Floor {
  std::vector<double> exact;
  std::vector<std::vector<double>> witnesses;
  double scale = 0;
};
// What the backend is held against: nothing of ours is in it.
Floor backend_floor(const Evidence&);

// Is the golden within rounding of the program's exact value? The floor has nothing of the golden in it.
Judgement judge_program(const Evidence&);
// Is ours, once the golden is? The floor has nothing of ours in it.
Judgement judge_backend(const Evidence& e);
Judgement judge_backend(const Evidence& e, const Floor&);
// What rounding does to a value in a whole run, before the factors below: of such a value nothing else is kept.
struct RunFloor {
  double rms = 0, max = 0;       // |value - exact|
  double scale = 0;              // RMS of the exact value
};
// Of a run of the whole program; the golden counts when it is within rounding itself.
RunFloor run_floor(const Evidence&);
// Ours beside the golden, both of a whole run.
Judgement judge_whole_run(const Array& golden, const Array& ours, const RunFloor&);
// Ours is no further from the golden than one rounding is, in every group of elements.
bool is_one_rounding(const Array& golden, const Array& ours);
// Integers and bools are equal, or wrong.
Judgement judge_exactly(const Array& golden, const Array& ours, const std::string& whose = "PyTorch");

// How much more than the floor an error may be: its RMS, and its largest element.
inline constexpr double kRmsFactor = 4, kMaxFactor = 16;
// A miss within so many floors is judged once more with more runs: two random ones may both land close to the exact value,
// and PyTorch may have added many equal terms.
inline constexpr double kNearMiss = 32;

// "33", "1,630", "320,000", "3.2e+09": three digits are enough.
std::string in_three_digits(double ratio);

// Half of the digits gone by rounding alone, in words: a bug could hide behind such a floor.
std::optional<std::string> instability(const Judgement&, DType);

}  // namespace pycandle
