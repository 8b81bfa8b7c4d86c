// One run of the whole program from the golden inputs and states, every tap compared as it comes by.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "base/error.h"
#include "verify/judging/goldens.h"
#include "verify/judging/metrics.h"

namespace pycandle {

// Values with a golden in which a random op has a part since the goldens before them. They are not the same twice, so
// nothing says whether they are right; what is computed from them begins with the golden. Per value of the program.
PerValue<bool> drawn_values(const Program&, const Goldens&);

// Sizes that the data decides and no golden shows are those that the program finds from the golden inputs.
Bindings all_sizes(const Program&, const OpTable&, const ParameterSource&, const Goldens&);

// With an input in the place of every value that is drawn; all others keep their numbers. Their goldens join `inputs`.
Program with_drawn_inputs(Program, const Goldens&, const PerValue<bool>& is_drawn, std::vector<Array>& inputs);

struct WholeRun {
  struct Result {
    std::string name;                    // an output, or "updated:NAME": what a state became
    ValueId value = kNoValue;
    Array ours, golden;
    Metrics metrics;
  };
  std::map<ValueId, Metrics> taps;
  std::map<ValueId, Array> other_integers;  // tapped integers and bools that are not the golden's
  std::vector<Result> results;           // those with a golden
  std::optional<Error> failure;          // it did not come to its end
};

// Drawn values are the goldens here too.
WholeRun run_whole(const Program&, const OpTable&, const Backend&, const std::shared_ptr<const ParameterSource>&, const Goldens&,
                   const PipelineOptions&);

}  // namespace pycandle
