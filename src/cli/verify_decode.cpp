#include "cli/verify_decode.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/json.h"
#include "cli/terminal.h"
#include "import/importer.h"
#include "ops/core/catalogue.h"
#include "runtime/bundle.h"
#include "runtime/model.h"
#include "verify/judging/judge.h"

namespace pycandle::cli {
namespace {

Json to_json(const WrongToken& wrong) {
  return {{"sequence", wrong.sequence}, {"position", wrong.position}, {"tap", wrong.value}, {"op", wrong.op},
          {"path", wrong.path},         {"python", wrong.place},      {"why", wrong.why},   {"cause", wrong.cause}};
}

Json to_json(const DecodeProof& proof, const DecodeStep& step) {
  Json schedules = Json::array(), caches = Json::array();
  for (const DecodeSchedule& s : proof.schedules) {
    schedules.push_back({{"chunk", s.chunk},
                         {"values", s.values},
                         {"judged", s.judged},
                         {"worst_floors", s.worst},
                         {"worst_tap", s.worst_value},
                         {"wrong", s.wrong ? to_json(*s.wrong) : Json()}});
  }
  for (const CacheState& state : step.states) {
    if (state.kind == CacheState::Kind::rows) caches.push_back(state.name);
  }
  return {{"name", proof.name},       {"backend", proof.backend}, {"passed", proof.passed()}, {"lengths", proof.lengths},
          {"prompts", proof.prompts}, {"caches", caches},         {"schedules", schedules}};
}

void print_wrong(const WrongToken& wrong) {
  fmt::print("\nwrong: token {} of sequence {} at {} ({})\n", wrong.position, wrong.sequence, wrong.value, wrong.op);
  if (!wrong.place.empty()) fmt::print("  in    {}, {}:  {}\n", wrong.path, wrong.place, wrong.source);
  fmt::print("  why   {}\n", wrong.why);
  if (!wrong.cause.empty()) fmt::print("  cause {}\n", wrong.cause);
}

void print_text(const DecodeProof& proof, double seconds) {
  const size_t values = proof.schedules.empty() ? 0 : proof.schedules.front().values;
  fmt::print("{} · decode · {} · {} values · {:.1f} s\n", styled(proof.name, Style::bold), proof.backend, values, seconds);
  fmt::print("  sequences of {} tokens in one batch, prompts of {}\n", fmt::join(proof.lengths, " and "),
             fmt::join(proof.prompts, " and "));
  Table table;
  for (const DecodeSchedule& s : proof.schedules) {
    table.row({fmt::format("steps of {}", s.chunk), s.wrong ? styled("WRONG", Style::red) : "within rounding",
               fmt::format("{} tokens × values judged", s.judged),
               s.worst_value.empty()
                   ? "all exact"
                   : fmt::format("largest drift {:.2g} of {:g} floors, {}", s.worst, kRmsFactor, s.worst_value)});
  }
  fmt::print("{}", table.text());
  for (const DecodeSchedule& s : proof.schedules) {
    if (!s.wrong) continue;
    print_wrong(*s.wrong);
    break;
  }
  fmt::print("\n{}\n", proof.passed() ? "the step is the forward pass at every position" : "the step is not the forward pass");
}

}  // namespace

void run_decode_proof(const std::string& model, const std::string& cache, const std::optional<CheckpointRequest>& checkpoint,
                      const DecodeProofOptions& options, Context& context) {
  Progress progress("verify");
  Recording recording = import_manifest(find_manifest(model), catalogue());
  const LoadedWeights weights = load_weights(recording, checkpoint);
  if (!recording.is_program_form)
    recording.program = run_program_pipeline(std::move(recording.program), catalogue(), options.pipeline);
  recording.program = with_caches(std::move(recording.program), catalogue(), cache);
  const Program& p = recording.program;
  const bool is_stored = recording.bundle && cache == "f32";
  const DecodeStep step = is_stored ? bundled_step(*recording.bundle, catalogue()) : derive_decode_step(p, catalogue());
  const NamedArrays inputs = decode_inputs(recording, step, options);
  const DecodeProof proof = prove_decoding(p, step, catalogue(), weights.parameters, inputs, options);
  progress.finish();
  if (context.json)
    fmt::print("{}\n", to_json(proof, step).dump(2, ' ', false, Json::error_handler_t::replace));
  else
    print_text(proof, progress.seconds());
  context.status = proof.passed() ? 0 : 1;
}

}  // namespace pycandle::cli
