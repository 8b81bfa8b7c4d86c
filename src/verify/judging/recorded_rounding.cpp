#include "verify/judging/recorded_rounding.h"

#include "base/error.h"
#include "ops/core/catalogue.h"
#include "runtime/model.h"
#include "verify/judging/slices.h"
#include "verify/judging/states.h"
#include "verify/judging/whole_run.h"

namespace pycandle {

RecordedRounding::RecordedRounding(const std::filesystem::path& manifest)
    : recording_(import_manifest(manifest, catalogue())), parameters_(recorded_parameters(recording_)) {
  program_ = program_to_judge(recording_.program, catalogue());
}

std::optional<RecordedRounding::Explanation> RecordedRounding::explains(const std::string& key, size_t call,
                                                                        const Array& ours) const {
  const Goldens goldens(program_, recording_.traces().at(call));
  const ValueId v = goldens.value_of(key);
  if (v == kNoValue || program_.graph.values[v].node < 0) return std::nullopt;
  Evidence evidence;
  evidence.golden = goldens.get(v);
  evidence.ours = ours;
  if (!is_inexact(ours.dtype()) || ours.dtype() != evidence.golden.dtype() || ours.shape() != evidence.golden.shape())
    return std::nullopt;
  const Trials trials(catalogue(), parameters_, all_sizes(program_, catalogue(), *parameters_, goldens));
  const Slice slice = Slicer(program_, drawn_values(program_, goldens)).slice(v);
  const std::vector<Array> inputs = known_arrays(program_, goldens, *parameters_, slice.inputs);
  const Judgement program = trials.judge(slice.program, inputs, evidence);
  if (!program.passed) return std::nullopt;
  Judgement backend = judge_backend(evidence);
  if (!backend.passed) backend = trials.judge_backend_again(slice.program, inputs, backend, evidence);
  if (!backend.passed) return std::nullopt;
  return Explanation{instability(program, ours.dtype()).value_or("")};
}

}  // namespace pycandle
