// Two programs that are not the same: does the difference show? Proven, tried, or with an input that shows it.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "params/parameters.h"
#include "verify/diagnosing/node_matches.h"

namespace pycandle {

// From best to worst.
enum class Likeness {
  same,               // one structure
  proven,             // the same formulas in the normal form that keeps rounding
  equal,              // to the bit, on every input that was tried
  within_rounding,    // on every input that was tried
  different_inside,   // equal so far, but a module gives something else at values that those inputs do not reach
  not_compared,       // random numbers are not the same twice
  different           // for an input that is shown
};
const char* to_string(Likeness);  // "proven equal", …
bool is_harmless(Likeness);       // up to within_rounding

// An input that shows the difference.
struct Counterexample {
  std::string what;       // "zeros", "random inputs with s0 = 1"
  std::string where;      // "output logits at [0, 3]"
  std::string inputs;     // as text, the first numbers of each
  std::string expected, found;
};

struct ProgramComparison {
  Likeness likeness = Likeness::same;
  std::vector<DifferingPart> parts;
  size_t tried = 0;            // inputs besides the recorded ones
  double largest = 0;          // difference, relative to the values, when it is rounding
  std::optional<Counterexample> shown;

  std::string verdict() const;  // one sentence
  std::string text() const;     // the ops that differ, then the verdict and what shows it
};

struct ComparedProgram {
  const Program& program;       // in program form
  std::shared_ptr<const ParameterSource> parameters;
};

// Parameters and states by name, inputs by their order. `recorded_inputs`: of every golden file that there is.
ProgramComparison compare_programs(const ComparedProgram& recorded, const ComparedProgram& captured, const OpTable&,
                                   const std::vector<std::vector<Array>>& recorded_inputs);

}  // namespace pycandle
